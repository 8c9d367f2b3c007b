"""The interruption of a block by other processes, or by other guests of the same machine."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from slowstep.text.numbers import percentage

STOLEN = 0.05
"""The share of the machine's processor time that the hypervisor may give to others before a pair is measured again."""

OTHERS = 0.15
"""The same share for other processes here. A desktop's background stays well below; a second job does not."""


@dataclass(frozen=True)
class CpuTimes:
    """Processor seconds so far: by everything, by the trials, stolen, and in all."""

    busy: float
    own: float
    stolen: float
    total: float


def read(own: float) -> CpuTimes:
    """Return the times so far; `own` is the processor seconds of the arms of this comparison."""
    t = psutil.cpu_times()
    stolen = getattr(t, "steal", 0.0)
    waiting = t.idle + getattr(t, "iowait", 0.0)
    # guest time is part of user time already
    total = sum(t) - getattr(t, "guest", 0.0) - getattr(t, "guest_nice", 0.0)
    return CpuTimes(busy=total - waiting - stolen, own=own, stolen=stolen, total=total)


def between(before: CpuTimes, after: CpuTimes) -> str | None:
    """Return what interrupted the trials between two readings, in words; None if nothing did."""
    capacity = after.total - before.total
    if capacity <= 0:
        return None
    stolen = (after.stolen - before.stolen) / capacity
    others = ((after.busy - before.busy) - (after.own - before.own)) / capacity
    if stolen > STOLEN:
        return f"the hypervisor took {percentage(stolen)} of the processor time"
    if others > OTHERS:
        return f"other processes took {percentage(others)} of the processor time"
    return None
