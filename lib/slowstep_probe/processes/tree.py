"""Processes and all their descendants, in any group or session, and how to end every one of them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Collection
from pathlib import Path

from slowstep_probe.own_time import time

PATIENCE = 60.0
"""Seconds after which a process that can't be killed (it waits in the kernel for a device) is left alone."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""Options of prctl, from linux/prctl.h."""


def descendants(pid: int) -> list[int]:
    """Return the numbers of all descendants of a process, parents before their children; zombies are among them."""
    children = _children if os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children") else _listed_children()
    found = children(pid)
    for child in found:  # the list grows during the loop
        found += [each for each in children(child) if each not in found]
    return found


def state(pid: int) -> str:
    """Return the letter of a process's state in the kernel; empty if it is gone."""
    return next(iter(_stat(pid)), "")


def descends(pid: int, above: int) -> bool:
    """Return whether a process descends from another one; False if it is gone."""
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


def _listed_children() -> Callable[[int], list[int]]:
    """Return what tells the children of a process where the kernel lists none: each process names its parent."""
    every = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    parents = {pid: int(told[1]) for pid in every if (told := _stat(pid))}
    return lambda pid: [own for own, parent in parents.items() if parent == pid]


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
