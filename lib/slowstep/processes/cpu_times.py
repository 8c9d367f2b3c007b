"""Processor seconds of this machine so far: by everything, by the trials, stolen, and in all."""

from __future__ import annotations

from dataclasses import dataclass

import psutil


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
