"""Time in which this process stood still, and with it what it measures: a container or a machine that was paused.

The clock of a trial goes on meanwhile, so a step seems to wait for as long. No other process has taken that time, so
the processor times do not show it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

EVERY = 0.25
"""The seconds between two looks at the clock."""

LEAST = 2.0
"""The seconds by which a look has to come late. On a busy machine it comes late by a tenth of a second."""

PAUSED = "everything stood still for a while, as in a machine or a container that is paused"


@dataclass
class StoodStill:
    """A stretch of time that is watched. `longest` is known when it is over."""

    longest: float = 0.0
    """The most seconds by which a look came late."""

    @property
    def why(self) -> str | None:
        """Return what interrupted the stretch, in words; None if nothing did."""
        return PAUSED if self.longest >= LEAST else None


@contextmanager
def watched() -> Iterator[StoodStill]:
    """Watch while the block runs."""
    seen, over, last = StoodStill(), threading.Event(), [time.monotonic()]

    def look() -> None:
        now = time.monotonic()
        seen.longest = max(seen.longest, now - last[0] - EVERY)
        last[0] = now

    def looks() -> None:
        while not over.wait(EVERY):
            look()

    thread = threading.Thread(target=looks, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
        look()
