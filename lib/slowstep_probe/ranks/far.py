"""Ranks on other nodes, from the process that leads all ranks: it asks them as it asks those that it has forked.

A node is reached by one connection. At its other end is the process that has forked the node's ranks
(`slowstep_probe.ranks.outpost`). A message over it names the rank that it is for, or that it comes from. Nothing is
said of times: the clocks of two hosts are never compared.
"""

from __future__ import annotations

import contextlib
import signal
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from slowstep_probe.own_time import time
from slowstep_probe.processes.wire import Wire
from slowstep_probe.ranks.rank import Rank
from slowstep_probe.ranks.standing import RankState


class FarWire:
    """The leader's end of the way to a rank on another node. It has the form of a `Wire`."""

    def __init__(self, node: FarNode, number: int):
        self._node, self._number = node, number
        self.unread: deque[dict[str, Any]] = deque()
        self.closed = False

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; OSError if the node is gone."""
        self._node.send({"rank": self._number, "message": message})

    def waits(self) -> bool:
        """Return whether a message has come and was not yet received."""
        return bool(self.unread)

    def receive(self) -> dict[str, Any]:
        """Return the next message; EOFError if the node is gone."""
        while not self.unread:
            self._node.read(None)
        return self.unread.popleft()


class FarRank:
    """The leader's side of a rank on another node. It has the form of a `RankProcess`."""

    def __init__(self, node: FarNode, rank: Rank):
        self.rank, self._node = rank, node
        self.wire = FarWire(node, rank.number)
        self.code: int | None = None
        """Exit status, or the negative number of the signal that ended it; None while it lives."""

    @property
    def lost(self) -> bool:
        """True if nothing can be heard of it, since the connection to its node is gone."""
        return self.code is None and self._node.gone

    @property
    def over(self) -> bool:
        """True if it has ended, or if nothing can be heard of it."""
        return self.code is not None or self._node.gone


class FarNode:
    """Another node, as the leader sees it: its connection, and its ranks."""

    def __init__(self, wire: Wire, ranks: Sequence[Rank]):
        self.wire, self.gone = wire, False
        self.ranks = {rank.number: FarRank(self, rank) for rank in ranks}
        self._places: dict[int, RankState | None] | None = None

    def send(self, message: dict[str, Any]) -> None:
        """Send a message to the process that leads the node's ranks; OSError if it is gone."""
        if self.gone:
            raise BrokenPipeError
        self.wire.send(message)

    def read_all(self) -> None:
        """Read what has come."""
        with contextlib.suppress(TimeoutError, EOFError):
            while True:
                self.read(0.0)

    def read(self, seconds: float | None) -> None:
        """Read one message; TimeoutError if none comes in so many seconds, EOFError if the node is gone."""
        try:
            told = self.wire.receive(seconds)
        except EOFError:
            self.gone = True
            raise
        if "rank" not in told and "places" not in told:  # it could not begin, and its own log says why
            self.gone = True
            raise EOFError
        if "places" in told:
            self._places = {int(number): place and RankState(*place) for number, place in told["places"].items()}
        elif "code" in told:
            self.ranks[told["rank"]].code = told["code"]
        else:
            self.ranks[told["rank"]].wire.unread.append(told["message"])

    def signal(self, number: signal.Signals) -> None:
        """Have the node's ranks sent a signal."""
        with contextlib.suppress(OSError):
            self.send({"signal": int(number)})

    def ask_where(self) -> Callable[[float], dict[int, RankState | None]]:
        """Ask where the node's ranks stand; what is returned waits for the answer, at most so many seconds."""
        self._places = None
        with contextlib.suppress(OSError):
            self.send({"asked": "where"})

        def answer(seconds: float) -> dict[int, RankState | None]:
            deadline = time.monotonic() + seconds
            with contextlib.suppress(TimeoutError, EOFError):
                while self._places is None:
                    self.read(max(0.0, deadline - time.monotonic()))
            return self._places or dict.fromkeys(self.ranks)

        return answer

    def close(self) -> None:
        """Close the connection: the node's ranks end."""
        self.gone = True
        self.wire.close()
