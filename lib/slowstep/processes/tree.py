"""Processes and all their descendants, in any group or session, and how to end every one of them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import threading
import time
from collections.abc import Collection

import psutil

POLL_SECONDS = 0.5

PATIENCE = 60.0
"""Seconds after which a process that can't be killed (it waits in the kernel for a device) is left alone."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""Options of prctl, from linux/prctl.h."""


def descendants(pid: int) -> list[int]:
    """Return the numbers of all descendants of a process, parents before their children; zombies are among them."""
    if not os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"):  # an old kernel, or not Linux
        with contextlib.suppress(psutil.Error):
            return [process.pid for process in psutil.Process(pid).children(recursive=True)]
        return []
    found = _children(pid)
    for child in found:  # the list grows during the loop
        found += [each for each in _children(child) if each not in found]
    return found


def process_tree(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants; an empty list if it is gone."""
    found = []
    for each in [pid, *descendants(pid)]:
        with contextlib.suppress(psutil.Error):
            found.append(psutil.Process(each))
    return found


def adopt_orphans() -> None:
    """Make this process the parent of each descendant whose own parent ends, so that none is lost (Linux only)."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent`, which started it, ends; if that has ended already, end now."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def end_descendants(pid: int, keep: Collection[int] = (), itself: bool = False) -> None:
    """Kill all descendants of a process, and with `itself` the process, too; only `keep` and its descendants stay.

    Every process is stopped before any is killed, since one that still runs could start others in the meantime. Those
    that were started before are found in the next round, under their new parent if `pid` adopts orphans.
    """
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        stopped: list[int] = []
        while new := [each for each in _running(pid, keep, itself) if each not in stopped]:
            for each in new:
                _signal(each, signal.SIGSTOP)
            stopped += new
        if not stopped:
            return
        for each in reversed(stopped):
            _signal(each, signal.SIGKILL)
        time.sleep(0.01)


def reap_adopted(keep: Collection[int] = ()) -> None:
    """Let go of the orphans that this process adopted and that have ended, but not of those to `keep`.

    Nobody else waits for them, and each would stay in the table of processes for as long as this process lives.
    """
    for pid in _children(os.getpid()):
        if pid not in keep and _state(pid) == "Z":
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def end_process_tree(pid: int) -> None:
    """Kill a process and all its descendants; of the calling process, only the descendants."""
    end_descendants(pid, itself=pid != os.getpid())


def end_with_parent(parent: int, folder: str = "") -> None:
    """End this process and its descendants when `parent` has ended, in whatever way, or had ended before.

    The `folder` of temporary files that `parent` would have deleted is deleted then, too.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        end_descendants(os.getpid())
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="end with parent").start()


def _running(pid: int, keep: Collection[int], itself: bool) -> list[int]:
    kept = set(keep)
    for each in keep:
        kept.update(descendants(each))
    found = [*([pid] if itself else []), *descendants(pid)]
    return [each for each in found if each not in kept and _state(each) not in ("", "Z", "X")]


def _state(pid: int) -> str:
    """Return the letter of a process's state in the kernel; empty if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "R" if not os.path.isdir("/proc/self") and psutil.pid_exists(pid) else ""


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
