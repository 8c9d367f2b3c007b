"""The time that Python's garbage collector takes."""

from __future__ import annotations

import gc

from slowstep_probe.own_time import time


class CollectorTime:
    """The seconds that Python's cyclic garbage collector takes, whoever called it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def start(self) -> None:
        """Begin to count."""
        gc.callbacks.append(self._called)

    def _called(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self.seconds += time.perf_counter() - self._began
