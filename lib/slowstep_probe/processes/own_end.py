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

    def attach(self, patches: Patches) -> None:
        """Begin."""
        patches.around(os, "_exit", self._exits)

    def trains_here(self) -> None:
        """Take this process for the one that trains."""
        self._trains = os.getpid()

    def _exits(self, original: Callable[[int], Any], status: int) -> None:
        if os.getpid() == self._trains:
            self._ends(status)
        original(status)
