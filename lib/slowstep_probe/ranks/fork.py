"""The processes of ranks: forked from one that leads them, each with a wire to it, and what each prints told apart.

Ranks on other nodes are among those that a leader leads. It asks and awaits them in the same way.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field

from slowstep_probe.own_time import time
from slowstep_probe.processes.standard_streams import print_to
from slowstep_probe.processes.tree import adopt_orphans, die_with_parent, end_descendants
from slowstep_probe.processes.wire import Wire, pair
from slowstep_probe.ranks.far import FarNode, FarRank, FarWire
from slowstep_probe.ranks.rank import Rank

PORTION = 2**16

LONGEST_LINE = 2**14
"""The bytes of a line that are waited for before they are printed without its end."""


@dataclass
class RankProcess:
    """The leader's side of a rank."""

    rank: Rank
    pid: int
    wire: Wire
    where: Wire
    """The wire over which it says where it stands (`slowstep_probe.ranks.whereabouts`)."""
    printed: int
    """The descriptor from which what the rank prints is read."""
    code: int | None = None
    """Exit status, or the negative number of the signal that ended it; None while it lives."""
    silent: bool = False
    """True once nothing will come from it any more."""
    lost: bool = False
    """True if nothing can be heard of it, as of a rank whose node is gone; never so of one on this node."""
    _line: bytearray = field(default_factory=bytearray)

    @property
    def over(self) -> bool:
        """True if it has ended."""
        return self.code is not None

    def pump(self) -> None:
        """Print what the rank has printed since, line by line, each with its rank before it."""
        with contextlib.suppress(BlockingIOError):
            while not self.silent:
                text = os.read(self.printed, PORTION)
                self.silent = not text
                self._line += text
                *lines, self._line = self._line.split(b"\n")
                if len(self._line) > LONGEST_LINE:
                    lines, self._line = [*lines, self._line], bytearray()
                self._print(lines)

    def finish(self) -> None:
        """Print the rest."""
        self.pump()
        if self._line:
            self._print([self._line])

    def _print(self, lines: Sequence[bytes]) -> None:
        text = b"".join(b"[rank %d] %s\n" % (self.rank.number, line) for line in lines)
        while text:
            text = text[os.write(1, text) :]


class Ranks:
    """The ranks of a trial, from the process that leads them: those that it has forked, and those of other nodes."""

    def __init__(self, here: list[RankProcess], nodes: Sequence[FarNode]):
        self.here, self.nodes = here, nodes
        far = [each for node in nodes for each in node.ranks.values()]
        self.processes: list[RankProcess | FarRank] = sorted([*here, *far], key=lambda each: each.rank.number)

    def wait(self, also: Sequence[Wire], seconds: float) -> list[Wire | FarWire]:
        """Return the wires, of ranks and of `also`, from which something can be received. A rank's end ends the wait.

        What ranks print meanwhile is passed on.
        """
        near = [*also, *(each.wire for each in self.here if not each.wire.closed)]
        wires = [*near, *(each.wire for each in self.processes if isinstance(each, FarRank))]
        if ready := [wire for wire in wires if wire.waits()]:
            return ready
        deadline = time.monotonic() + seconds
        while True:
            self.collect()
            living = not any(each.over for each in self.processes)
            found = self._poll(near, max(0.0, deadline - time.monotonic()) if living else 0.0)
            ready = [wire for wire in wires if wire.waits() or (wire in near and wire.fileno() in found)]
            if ready or time.monotonic() >= deadline or any(each.over for each in self.processes):
                return ready
            if found:  # a rank that prints without end is not asked for each of its lines
                time.sleep(0.005)

    def _poll(self, near: Sequence[Wire], seconds: float) -> set[int]:
        """Wait for anything to read, pass on what ranks print and what nodes send, and return the readable descriptors.

        `near` are wires on this node.
        """
        poll = select.poll()
        nodes = [node for node in self.nodes if not node.gone]
        printing = [each.printed for each in self.here if not each.silent]
        for descriptor in [*(one.fileno() for one in near), *(node.wire.fileno() for node in nodes), *printing]:
            poll.register(descriptor, select.POLLIN)
        readable = select.POLLIN | select.POLLHUP | select.POLLERR
        found = {descriptor for descriptor, event in poll.poll(seconds * 1000) if event & readable}
        for each in self.here:
            if each.printed in found:
                each.pump()
        for node in nodes:
            if node.wire.fileno() in found:
                node.read_all()
        return found

    def collect(self) -> None:
        """Note which ranks have ended."""
        for each in self.here:
            if each.code is None:
                with contextlib.suppress(ChildProcessError):
                    pid, status = os.waitpid(each.pid, os.WNOHANG)
                    if pid:
                        each.code = os.waitstatus_to_exitcode(status)

    def signal(self, number: signal.Signals) -> None:
        """Send all ranks a signal."""
        for each in self.here:
            if each.code is None:
                with contextlib.suppress(OSError):
                    os.kill(each.pid, number)
        for node in self.nodes:
            node.signal(number)

    def end(self) -> None:
        """End all ranks with all that they started, and print what they printed last. Other nodes end theirs."""
        for node in self.nodes:
            node.close()
        end_descendants(os.getpid())
        self.collect()
        for each in self.here:
            each.finish()


def fork_ranks(ranks: Sequence[Rank]) -> list[RankProcess] | tuple[Rank, Wire, Wire]:
    """Fork ranks. Return all of them in this process, which leads them, and in each its rank and its two wires.

    A rank dies with its leader. It adopts the orphans of what it starts, so that they can stand still with it.
    """
    leader, processes = os.getpid(), []
    for rank in ranks:
        ours, theirs = pair()
        where, answers = pair()
        printed, printing = os.pipe()
        if pid := os.fork():
            theirs.close()
            answers.close()
            os.close(printing)
            os.set_blocking(printed, False)
            processes.append(RankProcess(rank=rank, pid=pid, wire=ours, where=where, printed=printed))
            continue
        die_with_parent(leader)
        adopt_orphans()
        for other in processes:  # a rank that held another's wire open would hide its end
            other.wire.close()
            other.where.close()
            os.close(other.printed)
        ours.close()
        where.close()
        os.close(printed)
        print_to(printing)
        return rank, theirs, answers
    return processes
