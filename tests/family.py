"""The processes of a run, seen while they come and go: one may end between any two questions about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import psutil


def lives(process: psutil.Process) -> bool:
    """Whether it has not ended; one that only waits to be collected has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended."""
    return [process for process in processes if lives(process)]


def words(process: psutil.Process) -> str:
    """Its command line, separated by spaces; "" once it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def descendants(pid: int) -> list[psutil.Process]:
    """What a process has started, and what that has; nothing once it has ended."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def wait(condition: Callable[[], object], seconds: float = 120.0) -> bool:
    """Whether something comes true within a generous time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(condition())
