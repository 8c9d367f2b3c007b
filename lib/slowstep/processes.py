"""Processes and their descendants, of whatever group."""

from __future__ import annotations

import contextlib
import os
import threading
import time

import psutil

POLL_SECONDS = 0.5


class Busy(RuntimeError):
    """Another process works on the same investigation."""


def family(pid: int) -> list[psutil.Process]:
    """A process and its descendants; empty if it is gone."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def end_family(pid: int) -> None:
    """Kill a process and all its descendants, the process itself last."""
    for process in reversed(family(pid)):
        with contextlib.suppress(psutil.Error):
            process.kill()


def end_with_parent(parent: int) -> None:
    """End this process and its descendants when `parent` is gone, however that died, even before this was called."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        end_family(os.getpid())

    threading.Thread(target=watch, daemon=True, name="end with parent").start()
