"""Owners of temporary files: a mark in a file's name tells whether the process that made it still lives.

The number of a process is used again after it has ended. Together with the time of its start it names one process, as
long as the machine runs. Numbers can be compared only in one container (its namespaces) and since one start of the
machine. A mark made elsewhere is never judged, as /tmp may be shared between containers.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from pathlib import Path

MARK = r"[0-9a-f]{8}-[0-9]+-[0-9]+"
"""The shape of a mark: where it was made, the number of the process, and its start in ticks of the kernel's clock."""


def mark() -> str:
    """Return the mark of the calling process. Without the kernel's /proc (not Linux) it is one that is never judged."""
    return f"{_place()}-{os.getpid()}-{_start(os.getpid()) or 0}"


def is_known(text: str) -> bool:
    """Return whether the mark `text` names one process of this place, and no other could have the same."""
    if not re.fullmatch(MARK, text):
        return False
    place, _, start = text.split("-")
    return bool(place.strip("0")) and place == _place() and int(start) > 0


def is_dead(text: str) -> bool:
    """Return whether the process that made the mark `text` has provably ended."""
    if not is_known(text):
        return False
    _, pid, start = text.split("-")
    return _start(int(pid)) != int(start)


@functools.cache
def _place() -> str:
    """Return a short name of this start of the machine and of its namespaces of processes and of time.

    Numbers and starts of processes can be compared only within one such place. The name is zeros if it is not known.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        spaces = [os.readlink(f"/proc/self/ns/{name}") for name in ("pid", "time") if _has_namespace(name)]
    except OSError:
        return "0" * 8
    return hashlib.sha256(" ".join([boot, *spaces]).encode()).hexdigest()[:8]


def _has_namespace(name: str) -> bool:
    return os.path.lexists(f"/proc/self/ns/{name}")


def _start(pid: int) -> int | None:
    """Return when a process began, in ticks since the machine did; None if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])
