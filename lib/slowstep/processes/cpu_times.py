"""Processor seconds of the cores that the trials may use: by everything, by the trials, stolen, and in all."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from slowstep.environment.limits import Quota, core_numbers, quotas, usable_cores

ONLINE = Path("/sys/devices/system/cpu/online")
"""The numbers of the cores that are switched on, such as `0-3,6`."""


@dataclass(frozen=True)
class CpuTimes:
    """Processor seconds so far, of the cores that this process may run on."""

    busy: float
    own: float
    """Processor seconds of the trials."""
    stolen: float
    total: float
    at: float = 0.0
    """The time of the reading, in seconds of a clock that is never set."""
    usable_share: float = 1.0
    """The share of these cores that the trials can keep busy: a quota may pay for fewer."""
    quotas: dict[str, Quota] = field(default_factory=dict)
    """The quotas of CPU time that the trials are under, by control group."""

    def stops_since(self, before: CpuTimes) -> tuple[int, int]:
        """Return in how many periods a quota was counted since an earlier reading, and in how many it was used up.

        They are those of the quota that was used up most often; (0, 0) without one.
        """
        found = [
            (now.periods - before.quotas[group].periods, now.used_up - before.quotas[group].used_up)
            for group, now in self.quotas.items()
            if group in before.quotas
        ]
        return max(found, key=lambda one: one[1], default=(0, 0))


def read(own: float) -> CpuTimes:
    """Return the times so far; `own` is the processor seconds of the arms of this comparison."""
    mine, limits = core_numbers(), quotas()
    rows = _rows_of(mine)
    stolen = sum(getattr(t, "steal", 0.0) for t in rows)
    waiting = sum(t.idle + getattr(t, "iowait", 0.0) for t in rows)
    # guest time is part of user time already
    total = sum(sum(t) - getattr(t, "guest", 0.0) - getattr(t, "guest_nice", 0.0) for t in rows)
    return CpuTimes(
        busy=total - waiting - stolen,
        own=own,
        stolen=stolen,
        total=total,
        at=time.monotonic(),
        usable_share=usable_cores(limits) / len(mine),
        quotas=limits,
    )


def _rows_of(mine: Sequence[int]) -> Sequence[Any]:
    """Return the times of these cores, each; of all cores if the system does not tell which is which."""
    rows, numbers = psutil.cpu_times(percpu=True), _online()
    if len(numbers) != len(rows) or not set(mine) <= set(numbers):
        return rows
    return [rows[numbers.index(number)] for number in mine]


def _online() -> list[int]:
    """Return the numbers of the cores that are switched on, in their order; nothing if that is not told."""
    try:
        parts = ONLINE.read_text(encoding="ascii").strip().split(",")
        ends = [(part.split("-")[0], part.split("-")[-1]) for part in parts]
        return [number for first, last in ends for number in range(int(first), int(last) + 1)]
    except (OSError, ValueError):
        return []
