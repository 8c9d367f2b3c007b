"""The memory that is left, on this machine or in the container that the kit runs in, whichever is less."""

from __future__ import annotations

from pathlib import Path

import psutil

MOUNTED = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def available() -> int:
    """Return the bytes that can still be taken before the kernel kills a process for lack of memory."""
    return min([psutil.virtual_memory().available, *_left_in_groups(MOUNTED, MEMBERSHIP)])


def _left_in_groups(mounted: Path, membership: Path) -> list[int]:
    """Return the bytes that are left in each control group of this process, of both versions of Linux's control groups.

    https://docs.kernel.org/admin-guide/cgroup-v2.html, memory.max and memory.current. Pages of files that were not used
    lately count as free, since the kernel gives them up first.
    """
    try:
        lines = membership.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    rooms = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        second = number == "0" and not controllers
        if not second and "memory" not in controllers.split(","):
            continue
        top = mounted if second else mounted / "memory"
        limit, used, idle = (
            ("memory.max", "memory.current", "inactive_file")
            if second
            else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        )
        group = top / path.lstrip("/")
        # a container sees its own group as the top, whatever its path on the host
        for folder in {top, *(f for f in (group, *group.parents) if f.is_relative_to(top))}:
            most, now = _number(folder / limit), _number(folder / used)
            if most is not None and now is not None:
                rooms.append(max(0, most - now + _stat(folder / "memory.stat", idle)))
    return rooms


def _number(file: Path) -> int | None:
    """Return the number in a file; None where there is no such file, or no limit ("max") in it."""
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _stat(file: Path, name: str) -> int:
    try:
        rows = dict(line.split() for line in file.read_text(encoding="ascii").splitlines())
        return int(rows.get(name, 0))
    except (OSError, ValueError):
        return 0
