"""The processes of ranks: forked from one that leads them, each with a wire to it, and what each prints told apart."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from slowstep_probe.processes.tree import adopt_orphans, die_with_parent, end_descendants
from slowstep_probe.processes.wire import Wire, pair
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
    _line: bytearray = field(default_factory=bytearray)

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
    """The ranks of a trial, from the process that leads them."""

    def __init__(self, processes: list[RankProcess]):
        self.processes = processes

    def wait(self, also: Sequence[Wire], seconds: float) -> list[Wire]:
        """Return the wires, of ranks and of `also`, from which something can be received. A rank's end ends the wait.

        What ranks print meanwhile is passed on.
        """
        wires = [*also, *(each.wire for each in self.processes if not each.wire.closed)]
        if ready := [wire for wire in wires if wire.waits()]:
            return ready
        deadline = time.monotonic() + seconds
        while True:
            self.collect()
            poll = select.poll()
            printing = [each.printed for each in self.processes if not each.silent]
            for descriptor in [w.fileno() for w in wires] + printing:
                poll.register(descriptor, select.POLLIN)
            living = any(each.code is None for each in self.processes)
            found = {
                descriptor
                for descriptor, event in poll.poll(max(0.0, deadline - time.monotonic()) * 1000 if living else 0)
                if event & (select.POLLIN | select.POLLHUP)
            }
            for each in self.processes:
                if each.printed in found:
                    each.pump()
            ready = [wire for wire in wires if wire.fileno() in found]
            if ready or time.monotonic() >= deadline or any(each.code is not None for each in self.processes):
                return ready
            if found and not ready:  # a rank that prints without end is not asked for each of its lines
                time.sleep(0.005)

    def collect(self) -> None:
        """Note which ranks have ended."""
        for each in self.processes:
            if each.code is None:
                with contextlib.suppress(ChildProcessError):
                    pid, status = os.waitpid(each.pid, os.WNOHANG)
                    if pid:
                        each.code = os.waitstatus_to_exitcode(status)

    def signal(self, number: signal.Signals) -> None:
        """Send all ranks a signal."""
        for each in self.processes:
            if each.code is None:
                with contextlib.suppress(OSError):
                    os.kill(each.pid, number)

    def end(self) -> None:
        """End all ranks with all that they started, and print what they printed last."""
        end_descendants(os.getpid())
        self.collect()
        for each in self.processes:
            each.finish()


def forked(size: int) -> Ranks | tuple[Rank, Wire, Wire]:
    """Fork `size` ranks. Return all of them in this process, which leads them, and in each its rank and its two wires.

    A rank dies with its leader. It adopts the orphans of what it starts, so that they can stand still with it.
    """
    leader, processes = os.getpid(), []
    for number in range(size):
        ours, theirs = pair()
        where, answers = pair()
        printed, printing = os.pipe()
        rank = Rank(number=number, size=size)
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
        for stream in (1, 2):
            os.dup2(printing, stream)
        os.close(printing)
        for name, stream in (("stdout", 1), ("stderr", 2)):
            setattr(sys, name, os.fdopen(stream, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False))
        return rank, theirs, answers
    return Ranks(processes)
