"""A node that has joined a session, from the session's side."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any

from slowstep.nodes.hello import Hello
from slowstep_probe.processes.wire import Wire

LOOK = 0.02
"""The seconds between two looks at what a node has said."""


class NodeFailed(Exception):
    """The end of what was asked of a node. Its text says why, beginning with the node."""

    def __init__(self, node: str, reason: str, status: str = "crashed"):
        super().__init__(f"{node}: {reason}")
        self.status = status


class JoinedNode:
    """A node that has joined: it is told what to start, and says how that ended."""

    def __init__(self, number: int, hello: Hello, wire: Wire):
        self.number, self.hello, self.wire = number, hello, wire
        self.gone = False
        self.record = ""
        """The survey that it was told last."""
        self._said: dict[str, dict[str, Any]] = {}
        """What it said of each launch that has ended there."""
        self._reading = threading.Lock()

    def __str__(self) -> str:
        return f"node {self.number} ({self.hello.host})"

    def tell(self, order: dict[str, Any]) -> None:
        """Send an order; NodeFailed if the node has left."""
        with contextlib.suppress(OSError):
            if not self.gone:
                self.wire.send(order)
                return
        self.gone = True
        raise NodeFailed(str(self), "it has left the session")

    def ended(self, launch: str, seconds: float = 0.0) -> dict[str, Any] | None:
        """Return what the node says of a launch that has ended there; None if it says nothing in so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            self._read()
            if launch in self._said or self.gone or time.monotonic() >= deadline:
                return self._said.get(launch)
            time.sleep(LOOK)

    def _read(self) -> None:
        """Read what has come. Two threads may do so."""
        with self._reading, contextlib.suppress(TimeoutError):
            try:
                while not self.gone:
                    told = self.wire.receive(0.0)
                    self._said[told["launch"]] = told
            except (EOFError, KeyError):
                self.gone = True

    def asked(self, order: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Return the answer to a question, which has a `launch` of its own; None if none comes in so many seconds."""
        with contextlib.suppress(NodeFailed):
            self.tell(order)
            told = self.ended(order["launch"], seconds)
            self._said.pop(order["launch"], None)
            return told
        return None


def why_ended(launch: str, members: Sequence[JoinedNode], seconds: float = 0.0) -> NodeFailed | None:
    """Return why a launch has ended on one of these nodes, if one says so or has left within so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        for member in members:
            told = member.ended(launch)
            if told is not None and told.get("reason"):
                return NodeFailed(str(member), told["reason"], told.get("status", "crashed"))
            if member.gone and told is None:
                return NodeFailed(str(member), "it has left the session")
        if time.monotonic() >= deadline:
            return None
        time.sleep(LOOK)
