"""The host memory that a trial takes, at any time and between any two looks.

A trial takes what its main process holds (as a script of the user's own would, with all that it imported), and what the
other processes that it started hold for themselves. Where that is over the limit, pages of files don't count: data that
is mapped fills the memory, and the kernel takes its pages back when it needs them.

The kernel keeps the highest size that a process ever had (VmHWM). If that has grown since the last look, the growth
counts, although the memory may be free again.

A limit that the kernel itself keeps would not do. Few users can write control groups, and RLIMIT_AS and RLIMIT_DATA
count addresses, of which PyTorch and CUDA take many times the memory that they use.
"""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path

from slowstep_probe.own_time import time
from slowstep_probe.processes.tree import descendants

LIST_SECONDS = 0.5
"""The seconds between two searches for processes of a trial. The known ones are looked at every time."""

OF_FILES, PRIVATE = "RssFile", ("Private_Dirty", "Private_Hugetlb")
"""The names by which the kernel tells of pages of mapped files, and of those that belong to one process alone."""

SHARE = 0.1
"""The most of the time, 0 to 1, for telling shared pages from others, which takes long for large processes."""


class MemoryWatch:
    """Watches the memory of a trial. All sizes are in bytes."""

    def __init__(self, pid: int, limit: int | None):
        self.pid, self.limit = pid, limit
        self.peak = 0
        self._known: list[int] = []
        self._highest: dict[int, int] = {}
        self._list_again = self._ask_again = 0.0

    @property
    def over(self) -> bool:
        """True if the trial took more than it may."""
        return self.limit is not None and self.peak > self.limit

    def look(self, tree: int, exactly: bool = False) -> None:
        """Note what the trial holds now, or held since the last look. Its other processes descend from `tree`.

        The sizes of the others count shared pages once for each process. What each holds alone is found out with
        `exactly`, or if the sizes together are over the limit; in that case only as often as it is cheap (`SHARE`).
        """
        now = time.monotonic()
        if now >= self._list_again:
            self._known = [each for each in descendants(tree) if each != self.pid]
            self._list_again = now + LIST_SECONDS
        own, others = self._size(self.pid), sum(map(self._size, self._known))
        if self.limit is not None and own > self.limit:
            own -= _status(self.pid).get(OF_FILES, 0)
        self.note(own)
        suspected = self.limit is not None and own + others > self.limit and now >= self._ask_again
        if others and (exactly or suspected):
            self.note(own + sum(map(_private, self._known)))
            self._ask_again = now + (time.monotonic() - now) / SHARE

    def note(self, size: int) -> None:
        """Note that the trial held `size` bytes at some time."""
        self.peak = max(self.peak, size)

    def note_at_its_end(self, size: int) -> None:
        """Note that a process held `size` bytes at some time, pages of files among them: no more than it may count."""
        self.note(size if self.limit is None else min(size, self.limit))

    def _size(self, pid: int) -> int:
        told = _status(pid)
        now = told.get("VmRSS", 0) + told.get("VmSwap", 0)
        highest, before = told.get("VmHWM", 0), self._highest.get(pid, 0)
        self._highest[pid] = max(highest, before)
        return max(now, highest) if highest > before else now


def most_held(usage: resource.struct_rusage) -> int:
    """Return the most bytes that a process ever held, with pages of files, from what the kernel tells of its use."""
    return usage.ru_maxrss * 1024


def most_held_alone() -> int:
    """Return the most bytes that this process ever held, without the pages of files that it holds now."""
    return max(0, most_held(resource.getrusage(resource.RUSAGE_SELF)) - _status(os.getpid()).get(OF_FILES, 0))


def go_first() -> None:
    """Make the kernel end this process and what it starts before others if the machine's memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("800", encoding="ascii")


def _status(pid: int) -> dict[str, int]:
    """Return the sizes in bytes that the kernel tells of a process, by name; {} if it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as lines:
            fields = (line.split() for line in lines if line.startswith(("Vm", OF_FILES)))
            return {field[0].rstrip(":"): int(field[1]) * 1024 for field in fields}
    except (OSError, ValueError, IndexError):
        return {}


def _private(pid: int) -> int:
    """Return the bytes that a process holds alone, without pages as they stand in files; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8", errors="replace") as lines:
            return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(PRIVATE))
    except (OSError, ValueError, IndexError):
        return 0
