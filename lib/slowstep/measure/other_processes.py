"""The interruption of a block by other processes, or by other guests of the same machine."""

from __future__ import annotations

from slowstep.processes.cpu_times import CpuTimes, read
from slowstep.text.numbers import percentage

__all__ = ["CpuTimes", "between", "read"]

INTERRUPTING_STOLEN_SHARE = 0.05
"""The share of the cores' time that the hypervisor may give to others before a pair is measured again."""

INTERRUPTING_SHARE = 0.15
"""The share of what the trials could use that other processes may take. A desktop's background stays well below; a
second job does not."""


def between(before: CpuTimes, after: CpuTimes) -> str | None:
    """Return what interrupted the trials between two readings, in words; None if nothing did.

    Where a quota pays for a part of the cores, others may keep the rest of them busy, but not spend the quota.
    """
    capacity = after.total - before.total
    if capacity <= 0:
        return None
    own = after.own - before.own
    stolen = (after.stolen - before.stolen) / capacity
    others = (after.busy - before.busy - own) / capacity
    if stolen > INTERRUPTING_STOLEN_SHARE:
        return f"the hypervisor took {percentage(stolen)} of the processor time"
    if others > 1 - after.usable_share * (1 - INTERRUPTING_SHARE):
        return f"other processes took {percentage(others)} of the processor time"
    for group, now in after.quotas.items():
        first = before.quotas.get(group)
        if first is None or first.used is None or now.used is None:
            continue
        spent = (now.used - first.used - own) / (now.cores * (after.at - before.at))
        if spent > INTERRUPTING_SHARE:
            return f"other processes took {percentage(spent)} of the quota of CPU time"
    return None
