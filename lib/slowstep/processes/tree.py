"""What the kit asks of process trees: their processes, and the memory they hold."""

from __future__ import annotations

import contextlib

import psutil

from slowstep_probe.processes.tree import descendants


def process_tree(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants; an empty list if it is gone."""
    found = []
    for each in [pid, *descendants(pid)]:
        with contextlib.suppress(psutil.Error):
            found.append(psutil.Process(each))
    return found


def host_memory(pid: int) -> int:
    """Return the bytes that a process tree holds now. A shared page counts by its share."""
    held = 0
    for process in process_tree(pid):
        with contextlib.suppress(psutil.Error):
            full = process.memory_full_info()
            held += getattr(full, "pss", full.uss)
    return held


def resident_memory(pid: int) -> int:
    """Return the bytes that a process tree holds now. A shared page counts for each of its processes."""
    held = 0
    for process in process_tree(pid):
        with contextlib.suppress(psutil.Error):
            held += process.memory_info().rss
    return held


def own_memory(pid: int) -> int:
    """Return the bytes that a process tree holds now and shares with no other process."""
    held = 0
    for process in process_tree(pid):
        with contextlib.suppress(psutil.Error):
            held += process.memory_full_info().uss
    return held


def cpu_seconds(pid: int) -> float:
    """Return the processor seconds of a process tree so far, with those of children that have ended.

    Loader workers end with every epoch: their time passes to their parent, and one may vanish while it is asked.
    """
    seconds = 0.0
    for process in process_tree(pid):
        with contextlib.suppress(psutil.Error):
            seconds += sum(process.cpu_times()[:4])
    return seconds
