"""The end that a program makes of its own process by `os._exit`: nothing is unwound, and nobody is told."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from slowstep_probe.patches import Patches

EXIT = os._exit
"""The function that ends a process at once, whatever stands in its place."""


class OwnEnd:
    """Calls `ends(status)` before the process that trains ends itself so.

    Processes that the program forks are copies of it: they may evaluate and end, or go on while the first one ends.
    """

    def __init__(self, ends: Callable[[int], object]):
        self._ends, self._trains = ends, 0
        self._has_trained = False
        """True once the process that trains has done so for a step."""

    def attach(self, patches: Patches) -> None:
        patches.around(os, "_exit", self._exits)

    def trains_here(self) -> None:
        """Take this process for the one that trains, at a boundary of its steps."""
        process = os.getpid()
        self._has_trained, self._trains = process == self._trains, process

    @property
    def is_copy(self) -> bool:
        """True in a process that was forked by one which had trained: what it does is none of that one's steps."""
        return self._has_trained and os.getpid() != self._trains

    def _exits(self, original: Callable[[int], Any], status: int) -> None:
        if os.getpid() == self._trains:
            self._ends(status)
        original(status)
