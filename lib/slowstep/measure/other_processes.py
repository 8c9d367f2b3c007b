"""The interruption of a block by other processes, or by other guests of the same machine."""

from __future__ import annotations

from slowstep.processes.cpu_times import CpuTimes, read
from slowstep.text.numbers import percentage

__all__ = ["CpuTimes", "between", "read"]

STOLEN = 0.05
"""The share of the machine's processor time that the hypervisor may give to others before a pair is measured again."""

OTHERS = 0.15
"""The same share for other processes here. A desktop's background stays well below; a second job does not."""


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
