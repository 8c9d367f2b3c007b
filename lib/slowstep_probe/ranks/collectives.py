"""Calls of collectives: a phase of their own where they stand between the others, and their seconds by phase.

A collective that is called inside a forward or backward pass belongs to that pass. One that returns before its work is
done (`async_op=True`) is short, and the program waits for it later: so what is timed are the calls, and the waits for
what they have begun. They are timed as the phases are: by NCCL a call returns at once, and the device waits.
DistributedDataParallel exchanges gradients from C++ within the backward pass; those calls are not
among them.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import torch

from slowstep_probe import devices
from slowstep_probe.patches import Patches
from slowstep_probe.probe.clock import Clock
from slowstep_probe.probe.probe import Probe

NAMES = (
    "_broadcast_coalesced",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
)
"""The functions of torch.distributed in which ranks meet."""

WAIT = "wait"
"""The method of what they return by which a program waits for it. Messages from one rank to another have it, too."""

PHASE = "communication"


class Collectives:
    """Marks and times calls of collectives."""

    def __init__(self, probe: Probe):
        self._probe = probe
        self._calls: list[tuple[str, Clock, Any, Any]] | None = None
        """The calls since it was opened: the phase, the clock, and its marks before and after; None before that."""
        self._inside = False

    def attach(self, patches: Patches) -> None:
        if torch.distributed.is_available():
            known = [name for name in NAMES if hasattr(torch.distributed, name)]
            patches.all_everywhere(torch.distributed, dict.fromkeys(known, self._called))
            patches.around(torch.distributed.distributed_c10d.Work, WAIT, self._called)

    def open(self) -> None:
        """Begin to time calls."""
        self._calls = []

    def close(self) -> dict[str, float]:
        """End it, and return the seconds in calls by the phase in which they were called. The device has ended them."""
        seconds = Counter[str]()
        for phase, clock, began, ended in self._calls or ():
            seconds[phase] += sum(clock.gaps([began, ended]))
        self._calls = None
        return dict(seconds)

    def _called(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        elsewhere = threading.current_thread() is not threading.main_thread()
        unseen = torch.compiler.is_compiling() or devices.is_capturing()
        if self._inside or elsewhere or unseen:  # some are made of others
            return original(*args, **kwargs)
        self._inside = True
        clock = self._probe.clock
        try:
            with self._probe.phases.within(PHASE) as phase:
                began = clock.mark()
                try:
                    return original(*args, **kwargs)
                finally:
                    if self._calls is not None:
                        self._calls.append((phase, clock, began, clock.mark()))
        finally:
            self._inside = False
