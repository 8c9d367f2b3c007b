"""What this process may take, of this machine or of the container that the kit runs in, whichever allows less."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

MOUNTED = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def usable_memory() -> int:
    """Return the bytes of memory that this process and others of its control groups may hold: at most all there are.

    Pages of files count: a group that reads more than its limit keeps no more of it in memory.
    """
    return min([psutil.virtual_memory().total, *(most for most, _, _ in _memory_limits())])


def available_memory() -> int:
    """Return the bytes that can still be taken before the kernel kills a process for lack of memory.

    https://docs.kernel.org/admin-guide/cgroup-v2.html, memory.max and memory.current. Pages of files that were not used
    lately count as free, since the kernel gives them up first.
    """
    left = [max(0, most - now + idle) for most, now, idle in _memory_limits() if now is not None]
    return min([psutil.virtual_memory().available, *left])


def _memory_limits() -> Iterator[tuple[int, int | None, int]]:
    """Yield the limit of each control group that has one, what it holds, and the idle pages of files in that; in bytes.

    What it holds is None where the system does not tell it.
    """
    for folder, second in _groups("memory"):
        limit, used, idle = (
            ("memory.max", "memory.current", "inactive_file")
            if second
            else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        )
        if (most := _number(folder / limit)) is not None:
            yield most, _number(folder / used), _stat(folder / "memory.stat", idle)


def core_numbers() -> list[int]:
    """Return the numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def usable_cores(paid_by: Mapping[str, Quota] | None = None) -> int:
    """Return how many cores this process may keep busy: those it may run on, and no more than a quota of time pays for.

    A part of a core counts as one. `paid_by` are its quotas, where they have been read.
    """
    paid = [max(1, math.ceil(quota.cores)) for quota in (quotas() if paid_by is None else paid_by).values()]
    return min([len(core_numbers()), *paid])


@dataclass(frozen=True)
class Quota:
    """A quota of CPU time that this process shares with the others of a control group, and what became of it so far.

    A group that keeps more cores busy than its quota pays for is stopped for the rest of each period
    (https://docs.kernel.org/scheduler/sched-bwc.html).
    """

    cores: float
    """The number of cores that it pays for."""
    used: float | None
    """Processor seconds of the group's processes; None if the system does not count them."""
    periods: int
    """The periods in which it was counted."""
    used_up: int
    """The periods in which it was used up. The kernel then stops the processes until the next period begins."""


def quotas() -> dict[str, Quota]:
    """Return the quotas that this process is under, by the folder of their control group.

    https://docs.kernel.org/admin-guide/cgroup-v2.html, cpu.max and cpu.stat.
    """
    found = {}
    for folder, second in _groups("cpu"):
        if second:
            quota, _, period = _text(folder / "cpu.max").partition(" ")
        else:
            quota, period = (_text(folder / name) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
        if quota.isdecimal() and period.strip().isdecimal() and int(period):  # no quota: "max", and -1
            stat = folder / "cpu.stat"
            found[str(folder)] = Quota(
                cores=int(quota) / int(period),
                used=_stat(stat, "usage_usec") / 1e6 if second else _used_in_first_version(folder),
                periods=_stat(stat, "nr_periods"),
                used_up=_stat(stat, "nr_throttled"),
            )
    return found


def _used_in_first_version(folder: Path) -> float | None:
    """Return the processor seconds of a group, which another controller counts, at the same place of its own tree."""
    beside = MOUNTED / "cpuacct" / folder.relative_to(MOUNTED / "cpu")
    nanoseconds = _number(beside / "cpuacct.usage")
    return None if nanoseconds is None else nanoseconds / 1e9


def _groups(controller: str) -> Iterator[tuple[Path, bool]]:
    """Yield the folder of each control group of this process, and whether it is of the second version of them."""
    for line in _text(MEMBERSHIP).splitlines():
        number, controllers, path = line.split(":", 2)
        second = number == "0" and not controllers
        if not second and controller not in controllers.split(","):
            continue
        top = MOUNTED if second else MOUNTED / controller
        group = top / path.lstrip("/")
        # a container sees its own group as the top, whatever its path on the host
        for folder in sorted({top, *(f for f in (group, *group.parents) if f.is_relative_to(top))}):
            yield folder, second


def _text(file: Path) -> str:
    """Return what stands in a file, without the end of its line; nothing where it can't be read."""
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _number(file: Path) -> int | None:
    """Return the number in a file; None where there is no such file, or no limit ("max") in it."""
    text = _text(file)
    return int(text) if text.isdecimal() else None


def _stat(file: Path, name: str) -> int:
    rows = dict(line.split(maxsplit=1) for line in _text(file).splitlines() if " " in line)
    number = rows.get(name, "")
    return int(number) if number.isdecimal() else 0
