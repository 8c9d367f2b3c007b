"""Who owns a temporary file: a mark in its name that tells whether the process that made it still lives.

The number of a process is used again after it has ended; together with the time of its start it names one process, as
long as the machine runs. Numbers mean something only where the same ones are seen: in one container (its namespaces),
since one start of the machine. A mark made elsewhere is never judged, as /tmp may be shared between containers.
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
    """Return the mark of the calling process; one that nobody can judge where the kernel tells nothing (not Linux)."""
    return f"{_here()}-{os.getpid()}-{_start(os.getpid()) or 0}"


def is_dead(of: str) -> bool:
    """Whether the process that made this mark has provably ended."""
    if not re.fullmatch(MARK, of):
        return False
    place, pid, start = of.split("-")
    return bool(_here().strip("0")) and place == _here() and int(start) > 0 and _start(int(pid)) != int(start)


@functools.cache
def _here() -> str:
    """Name this start of the machine, and the namespaces in which processes are numbered and their starts reckoned."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        spaces = [os.readlink(f"/proc/self/ns/{name}") for name in ("pid", "time") if _has(name)]
    except OSError:
        return "0" * 8
    return hashlib.sha256(" ".join([boot, *spaces]).encode()).hexdigest()[:8]


def _has(namespace: str) -> bool:
    return os.path.lexists(f"/proc/self/ns/{namespace}")


def _start(pid: int) -> int | None:
    """Return when a process began, in ticks since the machine did; None if it is gone or only waits to be collected."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if told[0] in ("Z", "X") else int(told[19])
