"""Two clocks with one interface. Marks are taken cheaply while training runs, and turned into seconds afterwards."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Protocol

import torch

from slowstep_probe import devices
from slowstep_probe.own_time import time


class Clock(Protocol):
    """Marks moments; a comparison uses one clock throughout."""

    kind: str
    """The kind of device whose time it tells, 'cpu' or 'cuda'."""

    def mark(self) -> Any:
        """Return a mark of this moment. It costs as little as possible."""

    def synchronize(self) -> None:
        """Wait until all computation that was started has ended."""

    def begin(self) -> Any:
        """Return a mark from which on only what is launched after it counts."""

    def ended(self, mark: Any) -> Any:
        """Wait as `synchronize` does, and return the mark at which all ended that was started before the last mark."""

    def gaps(self, marks: list[Any]) -> list[float]:
        """Return the seconds between successive marks, n - 1 of them for n marks. Call it after `synchronize`."""

    def on(self, device: torch.device | None) -> Clock:
        """Return the clock that is right for a program whose losses lie on `device`; this one if that is not known."""

    def follow(self) -> None:
        """Note that the program trains here and now: a backward pass or an optimizer begins."""


class HostClock:
    """The processor's clock, for devices on which a call returns when its computation has ended.

    A program that has not been seen to train on another device yet goes by it, too.
    """

    kind = "cpu"

    mark = staticmethod(time.perf_counter)

    def synchronize(self) -> None:
        """Wait for devices, if the program has begun to use some."""
        devices.synchronize()

    def begin(self) -> float:
        """Wait for devices, whose work no mark of this clock tells from what is launched later, and return a mark."""
        self.synchronize()
        return self.mark()

    def ended(self, mark: float) -> float:
        """Return this moment if devices are in use, after a wait for them: the last mark saw their launches alone."""
        if not devices.used():
            return mark
        devices.synchronize()
        return self.mark()

    def gaps(self, marks: list[float]) -> list[float]:
        """Return the differences of the marks, in seconds."""
        return [b - a for a, b in pairwise(marks)]

    def on(self, device: torch.device | None) -> Clock:
        """Return the clock of the device on which losses lie, or else of the one that the program fills most.

        That is right also where it computes on the host: a device that is idle comes to a mark as soon as the host.
        This one is returned where no device that runs CUDA is in use.
        """
        on_device = device is not None and device.type == "cuda"
        number = device.index if on_device else devices.fullest()
        return self if number is None else CudaClock(number)

    def follow(self) -> None:
        """Do nothing, since there is one processor."""


class CudaClock:
    """The device's clock: events in the CUDA stream. A host clock would see when work was queued, not when it ran.

    Nothing is synchronised between the marks, since a synchronisation per phase would change what is measured. A wait
    of the host counts only if the device waited, too: it then lies between two events. A program that trains on several
    devices is marked on the one where its losses lie, and all of them are waited for. One that has several streams (a
    prefetcher copies in its own) is marked on the stream that trains, wherever the mark is made: others run ahead.
    """

    kind = "cuda"

    def __init__(self, device: int | None = None):
        self.device = device
        """The number of the device whose stream is marked; None for the current one."""
        self.stream: torch.cuda.Stream | None = None
        """The stream that trains; None while that is not known, for the current one."""

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(self.stream or torch.cuda.current_stream(self.device))
        return event

    def follow(self) -> None:
        """Take the current stream for the one that trains."""
        self.stream = torch.cuda.current_stream(self.device)

    def synchronize(self) -> None:
        """Wait for the devices in use, and for the one that is marked, whatever an allocator tells of it."""
        devices.synchronize()
        torch.cuda.synchronize(self.device)

    def begin(self) -> torch.cuda.Event:
        """Return a mark without a wait: the event comes behind what was launched before it."""
        return self.mark()

    def ended(self, mark: torch.cuda.Event) -> torch.cuda.Event:
        """Return the mark itself: the event ends with what was launched before it."""
        self.synchronize()
        return mark

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
