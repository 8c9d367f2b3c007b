"""The clock of an investigation. In a notebook it stands still between cells, while somebody reads."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any


class CellClock:
    """The seconds in which the cells of a notebook ran, and those before the first. `now` is a clock that never stops.

    A cell that runs others counts as one.
    """

    def __init__(self, events: Any, now: Callable[[], float] = time.monotonic):
        self._now, self._between, self._ended = now, 0.0, None
        events.register("pre_run_cell", self._begin)
        events.register("post_run_cell", self._end)

    def __call__(self) -> float:
        """Return the seconds that have run."""
        return (self._now() if self._ended is None else self._ended) - self._between

    def _begin(self, *_: object) -> None:
        if self._ended is not None:
            self._between += self._now() - self._ended
            self._ended = None

    def _end(self, *_: object) -> None:
        self._ended = self._now()


def notebook_shell() -> Any:
    """Return IPython's shell, if this process runs the cells of a notebook in one; else None."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


@functools.cache
def working_clock() -> Callable[[], float]:
    """Return the clock of this process: that of its notebook's cells, or where it runs none, the monotonic one."""
    shell = notebook_shell()
    return time.monotonic if shell is None else CellClock(shell.events)
