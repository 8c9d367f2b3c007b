"""The process that leads the ranks of a node where nothing is decided: it passes on what the leader of all asks.

The leader is on another node (`slowstep_probe.ranks.far`). When the connection to it is gone, the ranks here end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any, NoReturn

from slowstep_probe.own_time import time
from slowstep_probe.processes.wire import Wire
from slowstep_probe.ranks.fork import RankProcess, Ranks
from slowstep_probe.ranks.whereabouts import ask_where

LOOK = 5.0
"""The seconds after which a wait begins anew."""


class Outpost:
    """Passes on requests to the ranks of this node, and their answers."""

    def __init__(self, wire: Wire, ranks: Ranks):
        self.wire, self.ranks = wire, ranks
        self._of = {each.rank.number: each for each in ranks.processes}
        self._told: set[int] = set()
        """The ranks whose end is told."""

    def serve(self) -> NoReturn:
        """Serve until the connection is gone; then end the node's ranks and this process."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                ready = self.ranks.wait([self.wire], LOOK)
                if self.wire in ready:
                    self._pass_on(self.wire.receive())
                for each in self.ranks.processes:
                    self._pass_back(each, each.wire in ready)
                if self._told:  # a wait ends at once from now on
                    time.sleep(0.02)
        self.ranks.end()
        sys.stdout.flush()
        os._exit(0)

    def _pass_on(self, told: dict[str, Any]) -> None:
        """Do what the leader of all says."""
        if "message" in told:
            with contextlib.suppress(OSError):  # it has ended, which is told by itself
                self._of[told["rank"]].wire.send(told["message"])
        elif "signal" in told:
            self.ranks.signal(signal.Signals(told["signal"]))
        else:
            self.wire.send({"places": ask_where(self.ranks.processes)})

    def _pass_back(self, each: RankProcess, ready: bool) -> None:
        """Pass on what a rank says, and then that it has ended."""
        number, over = each.rank.number, each.code is not None and each.rank.number not in self._told
        with contextlib.suppress(TimeoutError):
            while (ready or over or each.wire.waits()) and not each.wire.closed:
                try:
                    self.wire.send({"rank": number, "message": each.wire.receive(0)})
                except EOFError:
                    each.wire.close()
        if over:
            self._told.add(number)
            self.wire.send({"rank": number, "code": each.code})
