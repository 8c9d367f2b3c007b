"""The session: the node where `slowstep diagnose` runs listens, and other nodes join it.

A node that joins has one connection for orders. For each launch it opens another, which is handed over to the process
that leads the ranks. A stranger who connects is sent away, whatever it says, and nobody waits for it.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

from slowstep.nodes.greeting import SECONDS, NotGreeted, accept
from slowstep.nodes.hello import Hello, other_version, refused
from slowstep.nodes.key import made_key
from slowstep.nodes.listening import Listening
from slowstep.nodes.member import Member, NodeFailed
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
        self.members: dict[int, Member] = {}
        self.listening, self._key = listening, made_key(listening.key_file)
        self._lines: dict[tuple[str, int], Wire] = {}
        self._changed = threading.Condition()
        self._number = itertools.count(1)
        try:
            self._socket = (
                socket.create_server(("", listening.port), family=socket.AF_INET6, dualstack_ipv6=True)
                if socket.has_dualstack_ipv6()
                else socket.create_server(("", listening.port))
            )
        except OSError as error:
            raise SettingsError(
                f"port {listening.port} can't be listened at: {error.strerror}; give another one by --port"
            ) from None
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, name="session", daemon=True).start()

    # -- who joins --

    def gather(self) -> None:
        """Wait until all nodes have joined; SettingsError if they don't in time."""
        with self._changed:
            self.members = self._here()
        missing = self.own.nodes - 1 - len(self.members)
        if not missing:
            return
        key = f" --key-file {self.listening.key_file}" if self.listening.key_file else ""
        say(
            f"waiting for {missing} more node{'s' if missing > 1 else ''}; on each of them: "
            f"slowstep join {self.own.host}:{self.port}{key} -- and the command"
        )
        deadline = time.monotonic() + self.listening.seconds
        with self._changed:
            while len(self.members) < self.own.nodes - 1:
                if not self._changed.wait(deadline - time.monotonic()):
                    joined = ", ".join(str(one) for one in self.members.values()) or "none"
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
    def names(self) -> list[str]:
        """The names of all nodes, for readers."""
        return [f"node {number} ({hello.host})" for number, hello in self.hellos.items()]

    @property
    def on_nodes(self) -> list[int]:
        """The ranks of each node."""
        return [hello.processes for hello in self.hellos.values()]

    def _accept(self) -> None:
        while True:
            try:
                own, address = self._socket.accept()
            except OSError:  # the session is closed
                return
            threading.Thread(target=self._greet, args=(own, address[0]), daemon=True).start()

    def _greet(self, own: socket.socket, address: str) -> None:
        try:
            wire = accept(own, self._key)
        except NotGreeted as why:
            say(f"{address.removeprefix('::ffff:')} was sent away: {why}", error=True)
            return
        try:
            told = wire.receive(SECONDS)
            if "launch" in told:
                with self._changed:
                    self._lines[told["launch"], int(told["node"])] = wire
                    self._changed.notify_all()
                return
            if (kit := told["hello"]["kit"]) != self.own.kit:  # another version may say other things of itself
                self._send_away(wire, str(told["hello"].get("host")), other_version(self.own, kit))
                return
            self._join(from_plain(Hello, told["hello"]), wire)
        except (EOFError, OSError, TimeoutError, KeyError, TypeError, ValueError, SettingsError):
            wire.close()

    def _join(self, hello: Hello, wire: Wire) -> None:
        with self._changed:
            here = self._here()
            why = refused(self.own, hello, {number: one.hello for number, one in here.items()})
            if not why:
                known = {one.node for one in (hello,) if one.node is not None}
                free = [n for n in range(1, self.own.nodes) if n not in here]
                number = next(iter(known), free[0])
                wire.send({"node": number, "host": self.own.host})
                self.members = dict(sorted({**here, number: Member(number, hello, wire)}.items()))
                self._changed.notify_all()
        if why:
            self._send_away(wire, hello.host, why)
        else:
            say(f"node {number} has joined: {hello.host}")

    def _here(self) -> dict[int, Member]:
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

        NodeFailed if one of them can't.
        """
        for number, order in orders.items():
            self._member(number).tell(order | {"launch": launch})
        deadline, found = time.monotonic() + LINE_SECONDS, {}
        while len(found) < len(orders):
            with self._changed:
                for number in orders:
                    if (line := self._lines.pop((launch, number), None)) is not None:
                        found[number] = line
                if len(found) == len(orders):
                    break
                self._changed.wait(LOOK)
            late = time.monotonic() > deadline
            for number in orders:
                member = self.members[number]
                if number not in found and (member.ended(launch) or member.gone or late):
                    for line in found.values():
                        line.close()
                    raise self.why(launch, [number]) or NodeFailed(str(member), "it does not answer")
        return [found[number] for number in orders]

    def why(self, launch: str, nodes: list[int], seconds: float = 0.0) -> NodeFailed | None:
        """Return why a launch has ended on one of these nodes, if one says so or has left within so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            for member in [self.members[number] for number in nodes]:
                told = member.ended(launch)
                if told is not None and told.get("reason"):
                    return NodeFailed(str(member), told["reason"], told.get("status", "crashed"))
                if member.gone and told is None:
                    return NodeFailed(str(member), "it has left the session")
            if time.monotonic() >= deadline:
                return None
            time.sleep(LOOK)

    def _member(self, number: int) -> Member:
        if number not in self.members:
            raise NodeFailed(f"node {number}", "it has not joined")
        return self.members[number]

    def close(self) -> None:
        """End the session: the nodes leave it, and end what they run."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for member in self.members.values():
            member.gone = True
            member.wire.close()
