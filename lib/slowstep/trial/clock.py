"""Two clocks with one face: marks are taken cheaply while training runs and turned into seconds afterwards."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any, Protocol

import torch


class Clock(Protocol):
    """Marks moments; a comparison uses one clock throughout."""

    def mark(self) -> Any:
        """A moment, as cheaply as can be."""

    def synchronize(self) -> None:
        """Wait until everything that was started has happened."""

    def gaps(self, marks: list[Any]) -> list[float]:
        """Seconds between successive marks; call after `synchronize`."""


class HostClock:
    """The processor's clock: right where computation is finished when its call returns."""

    mark = staticmethod(time.perf_counter)

    def synchronize(self) -> None:
        """Nothing is under way."""

    def gaps(self, marks: list[float]) -> list[float]:
        """Differences of the marks."""
        return [b - a for a, b in pairwise(marks)]


class CudaClock:
    """The device's clock: events in the stream, since a host clock sees when work was queued, not when it ran.

    Nothing is synchronised between the marks: a synchronisation per phase would change what is measured. A wait of
    the host that the device did not feel takes no time here, and one that it felt lies between two events.
    """

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def gaps(self, marks: list[torch.cuda.Event]) -> list[float]:
        return [a.elapsed_time(b) / 1e3 for a, b in pairwise(marks)]


def clock_for(device: str) -> Clock:
    """The clock that is right for `device` ('cpu' or 'cuda')."""
    return CudaClock() if device == "cuda" else HostClock()
