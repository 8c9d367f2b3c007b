"""The session: the node where `slowstep diagnose` runs listens, and other nodes join it.

A node that joins has one connection for orders. For each launch it opens another, which is handed over to the process
that leads the ranks.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from slowstep.nodes.greeting import SECONDS
from slowstep.nodes.hello import Hello, other_version, refused
from slowstep.nodes.key import made_key
from slowstep.nodes.listener import Listener
from slowstep.nodes.listening import Listening
from slowstep.nodes.member import JoinedNode, NodeFailed, why_ended
from slowstep.records import Node
from slowstep.records.unlike_nodes import unlike
from slowstep.settings.convert import from_plain
from slowstep.settings.errors import SettingsError
from slowstep.text.terminal import say
from slowstep_probe.processes.wire import Wire

LINE_SECONDS = 30.0
"""The seconds in which a node opens the connection of a launch."""

LOOK = 0.05


class Session:
    """The nodes that measure together. This one is node 0."""

    def __init__(self, own: Hello, listening: Listening):
        self.own = own
        self.members: dict[int, JoinedNode] = {}
        """The nodes that have joined, by their number, those that have left since among them."""
        self.listening = listening
        self._awaited: dict[str, dict[int, Wire | None]] = {}
        """The connections so far of each launch that is waited for, by node."""
        self._changed = threading.Condition()
        self._number = itertools.count(1)
        self._listener = Listener(listening.port, made_key(listening.key_file), self._admit)
        self.port = self._listener.port

    # -- who joins --

    def gather(self) -> None:
        """Wait until all nodes have joined; SettingsError if they don't in time."""
        with self._changed:
            missing = self.own.nodes - 1 - len(self._here())
        if not missing:
            return
        key = f" --key-file {self.listening.key_file}" if self.listening.key_file else ""
        say(
            f"waiting for {missing} more node{'s' if missing > 1 else ''}; on each of them: "
            f"slowstep join {self.own.host}:{self.port}{key} -- and the command"
        )
        deadline = time.monotonic() + self.listening.seconds
        with self._changed:
            while len(here := self._here()) < self.own.nodes - 1:
                if not self._changed.wait(min(deadline - time.monotonic(), threading.TIMEOUT_MAX)):
                    joined = ", ".join(map(str, here.values())) or "none"
                    raise SettingsError(
                        f"of {self.own.nodes} nodes that the command names not all have joined within "
                        f"{self.listening.seconds:.0f} s (joined: {joined}); run `slowstep join "
                        f"{self.own.host}:{self.port}` there, with the same command"
                    )
        for line in unlike(self.records):
            say(line)

    @property
    def hellos(self) -> dict[int, Hello]:
        """What each node says of itself, by its number."""
        return {0: self.own} | {number: one.hello for number, one in sorted(self.members.items())}

    @property
    def records(self) -> list[Node]:
        """The nodes as they stand in records."""
        return [hello.record for hello in self.hellos.values()]

    @property
    def names(self) -> dict[int, str]:
        """The name of each node that has joined, for readers, by its number."""
        return {number: f"node {number} ({hello.host})" for number, hello in self.hellos.items()}

    @property
    def on_nodes(self) -> list[int]:
        """The ranks of each node."""
        return [hello.processes for hello in self.hellos.values()]

    def _admit(self, wire: Wire) -> None:
        """Take a connection for what its other end says: that of a launch, or of a node that joins."""
        try:
            told = wire.receive(SECONDS)
            if "launch" in told:
                self._keep_line(str(told["launch"]), int(told["node"]), wire)
                return
            if (kit := told["hello"]["kit"]) != self.own.kit:  # another version may say other things of itself
                self._send_away(wire, str(told["hello"].get("host")), other_version(self.own, kit))
                return
            self._join(from_plain(Hello, told["hello"]), wire)
        except (EOFError, OSError, TimeoutError, KeyError, TypeError, ValueError, SettingsError):
            wire.close()

    def _keep_line(self, launch: str, node: int, wire: Wire) -> None:
        """Keep a connection for the launch that waits for it. One that nobody waits for is closed: its part ends."""
        with self._changed:
            lines = self._awaited.get(launch, {})
            if awaited := node in lines and lines[node] is None:
                lines[node] = wire
                self._changed.notify_all()
        if not awaited:
            wire.close()

    def _join(self, hello: Hello, wire: Wire) -> None:
        with self._changed:
            here = self._here()
            why = refused(self.own, hello, {number: one.hello for number, one in here.items()})
            if not why:
                free = [n for n in range(1, self.own.nodes) if n not in here]
                had = [n for n in free if n in self.members and self.members[n].hello.host == hello.host]
                number = hello.node if hello.node is not None else [*had, *free][0]
                wire.send({"node": number, "host": self.own.host})
                self.members = dict(sorted({**self.members, number: JoinedNode(number, hello, wire)}.items()))
                self._changed.notify_all()
        if why:
            self._send_away(wire, hello.host, why)
        else:
            say(f"node {number} has joined: {hello.host}")

    def _here(self) -> dict[int, JoinedNode]:
        """Return the nodes that have joined and that have not left."""
        for one in self.members.values():
            one.ended("")  # it reads what has come, which may be the end
        return {number: one for number, one in self.members.items() if not one.gone}

    @staticmethod
    def _send_away(wire: Wire, host: str, why: str) -> None:
        wire.send({"refused": why})
        wire.close()
        say(f"{host} was sent away: {why}", error=True)

    # -- what is asked --

    def name_launch(self) -> str:
        """Return a name for a launch that no other has."""
        return f"launch-{next(self._number)}"

    def lines(self, launch: str, orders: Mapping[int, dict[str, Any]]) -> list[Wire]:
        """Give nodes their orders for a launch, and return the connections that they open, in the order of `orders`.

        NodeFailed if one of them can't. What the others have started then ends, also where they connect later.
        """
        found: dict[int, Wire | None] = dict.fromkeys(orders)
        with self._changed:
            self._awaited[launch] = found
        try:
            members = [self.member(number) for number in orders]
            for member, order in zip(members, orders.values(), strict=True):
                member.tell(order | {"launch": launch})
            self._wait_for(launch, members)
        finally:
            with self._changed:
                del self._awaited[launch]
            lines = [line for line in found.values() if line is not None]
            if len(lines) < len(orders):
                for line in lines:
                    line.close()
        return lines

    def _wait_for(self, launch: str, members: Sequence[JoinedNode]) -> None:
        """Wait until these nodes have opened their connections for a launch; NodeFailed if one does not."""
        deadline, found = time.monotonic() + LINE_SECONDS, self._awaited[launch]
        while True:
            with self._changed:
                if None not in found.values():
                    return
                self._changed.wait(LOOK)
            late = time.monotonic() > deadline
            for member in members:
                if found[member.number] is None and (member.ended(launch) or member.gone or late):
                    raise why_ended(launch, [member]) or NodeFailed(str(member), "it does not answer")

    def member(self, number: int) -> JoinedNode:
        """Return a node that has joined, which may have left since; NodeFailed if it never has."""
        if number not in self.members:
            raise NodeFailed(f"node {number}", "it has not joined")
        return self.members[number]

    def close(self) -> None:
        """End the session: the nodes leave it, and end what they run."""
        self._listener.close()
        for member in self.members.values():
            member.gone = True
            member.wire.close()
