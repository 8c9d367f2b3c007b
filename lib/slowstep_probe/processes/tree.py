"""Processes and all their descendants, in any group or session, and how to end every one of them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Collection

from slowstep_probe.own_time import time

PATIENCE = 60.0
"""Seconds after which a process that can't be killed (it waits in the kernel for a device) is left alone."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""Options of prctl, from linux/prctl.h."""


def descendants(pid: int) -> list[int]:
    """Return the numbers of all descendants of a process, parents before their children; zombies are among them."""
    children = _children if _kernel_tells() else _listed_children()
    found = children(pid)
    for child in found:  # the list grows during the loop
        found += [each for each in children(child) if each not in found]
    return found


def state(pid: int) -> str:
    """Return the letter of a process's state in the kernel; empty if it is gone."""
    if found := _stat(pid):
        return found[0]
    if os.path.isdir("/proc/self"):
        return ""
    return next((row[2][0] for row in _listed() if int(row[0]) == pid), "")


def descends(pid: int, above: int) -> bool:
    """Return whether a process descends from another one; False if it is gone."""
    if not os.path.isdir("/proc/self"):
        return pid in descendants(above)
    while found := _stat(pid):
        pid = int(found[1])
        if pid == above:
            return True
    return False


def _stat(pid: int) -> list[str]:
    """Return what the kernel tells of a process behind its name, the state and the parent first; [] if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def resident(pid: int) -> int:
    """Return the bytes that a process holds in memory, on a system without /proc; 0 if it is gone."""
    return next((int(row[3]) * 1024 for row in _listed() if int(row[0]) == pid), 0)


def adopt_orphans() -> None:
    """Make this process the parent of each descendant whose own parent ends, so that none is lost (Linux only)."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent`, which started it, ends; if that has ended already, end now."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def end_descendants(pid: int, keep: Collection[int] = (), itself: bool = False) -> int:
    """Kill all descendants of a process, and return how many there were; only `keep` and its descendants stay.

    With `itself` the process is killed, too.

    Every process is stopped before any is killed, since one that still runs could start others in the meantime. Those
    that were started before are found in the next round, under their new parent if `pid` adopts orphans.
    """
    deadline, ended = time.monotonic() + PATIENCE, 0
    while time.monotonic() < deadline:
        stopped: list[int] = []
        while new := [each for each in _running(pid, keep, itself) if each not in stopped]:
            for each in new:
                _signal(each, signal.SIGSTOP)
            stopped += new
        if not stopped:
            break
        for each in reversed(stopped):
            _signal(each, signal.SIGKILL)
        ended += len(stopped)
        time.sleep(0.01)
    return ended


def reap_adopted(keep: Collection[int] = ()) -> None:
    """Let go of the orphans that this process adopted and that have ended, but not of those to `keep`.

    Nobody else waits for them, and each would stay in the table of processes for as long as this process lives.
    """
    for pid in _children(os.getpid()):
        if pid not in keep and state(pid) == "Z":
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def end_adopted(mark: str) -> None:
    """Kill the children of this process, adopted ones too, that have `mark` (NAME=value) in their environment."""
    for pid in _children(os.getpid()):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if mark.encode() in file.read().split(b"\0"):
                end_descendants(pid, itself=True)
                os.waitpid(pid, os.WNOHANG)


def end_process_tree(pid: int) -> None:
    """Kill a process and all its descendants; of the calling process, only the descendants."""
    end_descendants(pid, itself=pid != os.getpid())


def _running(pid: int, keep: Collection[int], itself: bool) -> list[int]:
    kept = set(keep)
    for each in keep:
        kept.update(descendants(each))
    found = [*([pid] if itself else []), *descendants(pid)]
    return [each for each in found if each not in kept and state(each) not in ("", "Z", "X")]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


def _kernel_tells() -> bool:
    """Return whether /proc lists the children of a process: not so on old kernels, and elsewhere than on Linux."""
    return os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")


def _listed_children() -> Callable[[int], list[int]]:
    rows = [(int(row[0]), int(row[1])) for row in _listed()]
    return lambda pid: [own for own, parent in rows if parent == pid]


def _listed() -> list[list[str]]:
    """Return number, parent, state and KiB in memory of each process, as ps tells them."""
    words = ["ps", "-axo", "pid=,ppid=,state=,rss="]
    try:
        told = subprocess.run(words, capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [row for row in map(str.split, told.splitlines()) if len(row) == 4]


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
