"""Signals that a program sends: its own processes get them. To it, no other process of the machine exists.

Many scripts stop the run before them by its pid file, and that run may be the user's.
"""

from __future__ import annotations

import os
from typing import Any

from slowstep_probe.patches import Patches
from slowstep_probe.processes.tree import descendants, descends


def attach(patches: Patches) -> None:
    """Begin. The program's processes are those that descend from the one that started this process."""
    above = os.getppid()

    def is_own(pid: int) -> bool:
        return pid == os.getpid() or descends(pid, above)

    def kill(original: Any, pid: int, number: int) -> None:
        is_group = pid <= 0
        own = pid == 0 or (pid < -1 and is_own_group(-pid)) if is_group else is_own(pid)
        looks = number == 0 and not is_group and pid == above  # whether what started it still lives
        if not (own or looks):
            raise ProcessLookupError(3, "No such process")
        original(pid, number)

    def kill_group(original: Any, group: int, number: int) -> None:
        if not is_own_group(group):
            raise ProcessLookupError(3, "No such process")
        original(group, number)

    def is_own_group(group: int) -> bool:
        return group in (0, os.getpgrp()) or is_own(group) or any(_group(pid) == group for pid in descendants(above))

    patches.everywhere(os, "kill", kill)
    patches.everywhere(os, "killpg", kill_group)


def _group(pid: int) -> int:
    """Return the number of a process's group; 0 if the process is gone."""
    try:
        return os.getpgid(pid)
    except OSError:
        return 0
