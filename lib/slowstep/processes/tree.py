"""What the kit asks of process trees: their processes, and the memory they hold."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import TypeVar

import psutil

from slowstep_probe.processes.tree import descendants

N = TypeVar("N", int, float)


def process_tree(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants; an empty list if it is gone."""
    found = []
    for each in [pid, *descendants(pid)]:
        with contextlib.suppress(psutil.Error):
            found.append(psutil.Process(each))
    return found


def host_memory(pid: int) -> int:
    """Return the bytes that a process tree holds now. A shared page counts by its share."""

    def size(process: psutil.Process) -> int:
        full = process.memory_full_info()
        return getattr(full, "pss", full.uss)

    return _sum_of(pid, size)


def resident_memory(pid: int) -> int:
    """Return the bytes that a process tree holds now. A shared page counts for each of its processes."""
    return _sum_of(pid, lambda process: process.memory_info().rss)


def own_memory(pid: int) -> int:
    """Return the bytes that a process tree holds now and shares with no other process."""
    return _sum_of(pid, lambda process: process.memory_full_info().uss)


def cpu_seconds(pid: int) -> float:
    """Return the processor seconds of a process tree so far, with those of children that have ended.

    Loader workers end with every epoch: their time passes to their parent, and one may vanish while it is asked.
    """
    return _sum_of(pid, lambda process: sum(process.cpu_times()[:4]), 0.0)


def bytes_fetched(pid: int) -> int | None:
    """Return the bytes that a process tree has had the kernel fetch from storage so far; None where that is not told.

    What it read and the kernel held in memory is not among them. Linux counts it (`read_bytes` in proc_pid_io(5)), and
    adds what children fetched to their parent's when they have ended.
    """
    if sys.platform != "linux" or not hasattr(psutil.Process, "io_counters"):
        return None
    total = 0
    for process in process_tree(pid):
        try:
            total += process.io_counters().read_bytes
        except psutil.NoSuchProcess:
            continue
        except (psutil.Error, OSError, RuntimeError, ValueError):  # a part would look like all of it
            return None
    return total


def _sum_of(pid: int, told: Callable[[psutil.Process], N], start: N = 0) -> N:
    """Return the sum of what each process of a tree tells. One that is gone tells nothing."""
    total = start
    for process in process_tree(pid):
        with contextlib.suppress(psutil.Error):
            total += told(process)
    return total
