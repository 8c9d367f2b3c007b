"""The host's memory that a trial takes, at any time and between any two looks.

A trial takes what its main process holds (as a script of one's own would, with all that it imported), and what the
other processes that it started hold for themselves. The kernel keeps the highest size that a process ever had
(VmHWM): where that has grown since the last look, the growth counts, although it may be freed again.

Why not a limit that the kernel keeps itself: control groups can be written by few users, and RLIMIT_AS and RLIMIT_DATA
count addresses, of which PyTorch and CUDA take many times the memory that they use.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import psutil

from slowstep.processes import process_tree
from slowstep.processes.tree import descendants

LIST_SECONDS = 0.5
"""How often the processes of a trial are looked for; the known ones are looked at every time."""

SHARE = 0.1
"""Of the time, at the most, is spent on telling shared pages from others, which takes long for large processes."""


class MemoryWatch:
    """Looks at a trial's memory. All sizes in bytes."""

    def __init__(self, pid: int, limit: int | None):
        self.pid, self.limit = pid, limit
        self.peak = 0
        self._known: list[int] = []
        self._highest: dict[int, int] = {}
        self._list_again = self._ask_again = 0.0

    @property
    def over(self) -> bool:
        """Whether the trial took more than it may."""
        return self.limit is not None and self.peak > self.limit

    def look(self, tree: int, exactly: bool = False) -> None:
        """Note what the trial holds now, or held since the last look; its other processes descend from `tree`.

        The others' sizes count shared pages once a process. What each holds alone is asked only if that is asked for,
        or if the sizes together are over the limit; then as often as it is cheap.
        """
        now = time.monotonic()
        if now >= self._list_again:
            self._known = [each for each in descendants(tree) if each != self.pid]
            self._list_again = now + LIST_SECONDS
        own, others = self._size(self.pid), sum(map(self._size, self._known))
        self.note(own)
        suspected = self.limit is not None and own + others > self.limit and now >= self._ask_again
        if others and (exactly or suspected):
            self.note(own + sum(map(_private, self._known)))
            self._ask_again = now + (time.monotonic() - now) / SHARE

    def note(self, size: int) -> None:
        """Note that the trial took so much at some time."""
        self.peak = max(self.peak, size)

    def _size(self, pid: int) -> int:
        told = _status(pid)
        now = told.get("VmRSS", 0) + told.get("VmSwap", 0)
        highest, before = told.get("VmHWM", 0), self._highest.get(pid, 0)
        self._highest[pid] = max(highest, before)
        return max(now, highest) if highest > before else now


def host_memory(pid: int) -> int:
    """Return the bytes that a process and its descendants hold now, shared pages counted by their share."""
    held = 0
    for process in process_tree(pid):
        with contextlib.suppress(psutil.Error):
            full = process.memory_full_info()
            held += getattr(full, "pss", full.uss)
    return held


def go_first() -> None:
    """Have the kernel end this process and what it starts before others if the machine's memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("800", encoding="ascii")


def _status(pid: int) -> dict[str, int]:
    """The sizes that the kernel tells of a process; none if it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as lines:
            fields = (line.split() for line in lines if line.startswith("Vm"))
            return {field[0].rstrip(":"): int(field[1]) * 1024 for field in fields}
    except (OSError, ValueError, IndexError):
        if os.path.isdir("/proc/self"):
            return {}
    with contextlib.suppress(psutil.Error):  # not Linux
        return {"VmRSS": psutil.Process(pid).memory_info().rss}
    return {}


def _private(pid: int) -> int:
    """Bytes that a process holds alone."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).memory_full_info().uss
    return 0
