"""Signals that a program sends: its own processes get them. To it, no other process of the machine exists.

Many scripts stop the run before them by its pid file, and that run may be the user's. What a program starts to do so
(`pkill`) is held back by the kernel where that can (`own_signals.py`); it finds the others, and is not permitted.
"""

from __future__ import annotations

import os
import re
import signal
from typing import Any

from slowstep_probe.patches import Patches
from slowstep_probe.processes.tree import descendants, descends, state


def attach(patches: Patches) -> None:
    """Begin. The program's processes are those that descend from the one that started this process."""
    above = os.getppid()

    def is_own(pid: int) -> bool:
        return pid == os.getpid() or descends(pid, above)

    def kill(original: Any, pid: int, number: int) -> None:
        is_group = pid <= 0
        own = pid == 0 or (pid < -1 and is_own_group(-pid)) if is_group else is_own(pid)
        if own:
            original(pid, number)
        elif number or pid != above or not state(above):  # it may look whether what started it still lives
            raise ProcessLookupError(3, "No such process")

    def kill_group(original: Any, group: int, number: int) -> None:
        if not is_own_group(group):
            raise ProcessLookupError(3, "No such process")
        original(group, number)

    def send(original: Any, descriptor: int, number: int, *others: Any) -> None:
        kill(lambda *_: original(descriptor, number, *others), _number_of(descriptor), number)

    def is_own_group(group: int) -> bool:
        return group in (0, os.getpgrp()) or is_own(group) or any(_group(pid) == group for pid in descendants(above))

    patches.everywhere(os, "kill", kill)
    patches.everywhere(os, "killpg", kill_group)
    if hasattr(signal, "pidfd_send_signal"):
        patches.everywhere(signal, "pidfd_send_signal", send)


def _number_of(descriptor: int) -> int:
    """Return the number of the process that a descriptor stands for; -1, which is that of none, if it has ended."""
    with open(f"/proc/self/fdinfo/{int(descriptor)}", encoding="ascii") as told:
        found = re.search(r"^Pid:\s*(-?\d+)$", told.read(), re.MULTILINE)
    return int(found[1]) if found else -1


def _group(pid: int) -> int:
    """Return the number of a process's group; 0 if the process is gone."""
    try:
        return os.getpgid(pid)
    except OSError:
        return 0
