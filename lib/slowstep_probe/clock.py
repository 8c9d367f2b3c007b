"""Two clocks with one interface. Marks are taken cheaply while training runs, and turned into seconds afterwards."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any, Protocol

import torch

from slowstep_probe import devices


class Clock(Protocol):
    """Marks moments; a comparison uses one clock throughout."""

    def mark(self) -> Any:
        """Return a mark of this moment. It costs as little as possible."""

    def synchronize(self) -> None:
        """Wait until all computation that was started has ended."""

    def gaps(self, marks: list[Any]) -> list[float]:
        """Return the seconds between successive marks, n - 1 of them for n marks. Call it after `synchronize`."""

    def on(self, device: torch.device | None) -> Clock:
        """Return the clock of this kind that is right for a program whose losses lie on `device`, if that is known."""


class HostClock:
    """The processor's clock, for devices on which a call returns when its computation has ended."""

    mark = staticmethod(time.perf_counter)

    def synchronize(self) -> None:
        """Do nothing, since nothing is under way."""

    def gaps(self, marks: list[float]) -> list[float]:
        """Return the differences of the marks, in seconds."""
        return [b - a for a, b in pairwise(marks)]

    def on(self, device: torch.device | None) -> HostClock:
        """Return this clock, since there is one processor."""
        return self


class CudaClock:
    """The device's clock: events in the CUDA stream. A host clock would see when work was queued, not when it ran.

    Nothing is synchronised between the marks, since a synchronisation per phase would change what is measured. A wait
    of the host counts only if the device waited, too: it then lies between two events. A program that trains on several
    devices is marked on the one where its losses lie, and all of them are waited for.
    """

    def __init__(self, device: int | None = None):
        self.device = device
        """The number of the device whose stream is marked; None for the current one."""

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event

    def synchronize(self) -> None:
        for number in devices.used():
            torch.cuda.synchronize(number)

    def gaps(self, marks: list[torch.cuda.Event]) -> list[float]:
        return [a.elapsed_time(b) / 1e3 for a, b in pairwise(marks)]

    def on(self, device: torch.device | None) -> CudaClock:
        """Return a clock of that device; this one if losses lie nowhere yet, on the host, or where it marks already."""
        if device is None or device.type != "cuda" or device.index == self.device:
            return self
        return CudaClock(device.index)


def device_of(expected: bool) -> str:
    """Return the kind of device that a program trains on, 'cpu' or 'cuda', before its first step.

    It may not have touched the device yet, where it looks at a batch before it makes its model. `expected` says that it
    was seen to train there.
    """
    return "cuda" if torch.cuda.is_initialized() or (expected and torch.cuda.is_available()) else "cpu"


def clock_for(device: str) -> Clock:
    """Return the clock that is right for `device` ('cpu' or 'cuda')."""
    return CudaClock() if device == "cuda" else HostClock()
