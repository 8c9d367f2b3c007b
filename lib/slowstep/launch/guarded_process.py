"""A function in a process of its own, under a guard: started, asked over a pipe, and ended for sure."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slowstep.launch.fork_server import context
from slowstep.launch.guard_process import END, PEAK, Ended, Order, Started, guard
from slowstep.processes import end_descendants, end_process_tree
from slowstep.processes.process_mark import mark

GUARD_SECONDS = 90.0
"""The seconds that a guard may take to end what a trial left: more than it tries itself (`processes.tree.PATIENCE`)."""


class Guarded:
    """A process of its own that runs `target(connection, *arguments)` and sends its answers through `connection`.

    What it prints goes to `log`, or where the caller prints. Its `folder` is deleted when it ends. It is ended if it
    takes more than `limit` bytes of host memory.
    """

    def __init__(
        self,
        target: Callable[..., None],
        *arguments: Any,
        log: Path | None = None,
        folder: Path | None = None,
        limit: int | None = None,
        name: str = "slowstep",
    ):
        self.folder, self.pid, self.ended = folder, None, None
        server = context()
        self.connection, theirs = server.Pipe()
        self._report, reporting = server.Pipe()
        order = Order(
            target=target,
            arguments=arguments,
            owner=mark(),
            log=str(log) if log else "",
            folder=str(folder) if folder else "",
            limit=limit,
        )
        self.process = server.Process(target=guard, args=(reporting, theirs, order), name=name, daemon=False)
        try:
            self.process.start()
        except BaseException:
            self._delete_folder()
            raise
        atexit.register(self.end)  # before multiprocessing's own, which would wait for the process to end by itself
        theirs.close()
        reporting.close()
        with contextlib.suppress(EOFError, OSError):
            started = self._report.recv()
            self.pid = started.pid if isinstance(started, Started) else None

    def receive(self, timeout: float) -> Any:
        """Return what it sends next; EOFError if it has ended, TimeoutError if nothing comes in `timeout` seconds.

        What it sent before it ended is received first.
        """
        ready = multiprocessing.connection.wait([self.connection, self._report], timeout)
        if self.connection not in ready and not self.connection.poll(0):
            if self._report in ready:
                raise EOFError
            raise TimeoutError
        try:
            return self.connection.recv()
        except OSError:
            raise EOFError from None

    def peak(self) -> int:
        """Return the most host memory, in bytes, that its process tree has held; as last known if it has ended."""
        try:
            self._report.send(PEAK)
            while not isinstance(told := self._report.recv(), int):
                if isinstance(told, Ended):
                    self.ended = told
                    return told.peak
            return told
        except (EOFError, OSError):
            return self.ended.peak if self.ended else 0

    def end(self, grace: float = 0.0) -> Ended:
        """End its process tree, and return how it ended. Repeating this is harmless.

        It has `grace` seconds to end by itself.
        """
        if self.connection.closed:
            return self.ended
        self.ended = self._last_report(grace) or self.ended or Ended(code=None, peak=0, over=False)
        self.process.join(10)
        self._delete_folder()
        self.connection.close()  # last, so that an end that was interrupted is made up for
        self._report.close()
        atexit.unregister(self.end)
        return self.ended

    def _last_report(self, grace: float) -> Ended | None:
        """Return the guard's last message. If the guard is gone, end the process tree without it and return None."""
        if self.ended:
            return self.ended
        deadline = time.monotonic() + GUARD_SECONDS
        with contextlib.suppress(EOFError, OSError):
            if not self._report.poll(grace):
                self._report.send(END)
            while self._report.poll(max(0.0, deadline - time.monotonic())):
                told = self._report.recv()
                if isinstance(told, Ended):
                    return told
        self._end_without_guard()
        return None

    def _end_without_guard(self) -> None:
        """End what is left of the process tree of a guard that was killed.

        The kernel killed the trial with the guard, and gave the other processes to the fork server, whose own children
        are known.
        """
        if self.process.exitcode is None:
            end_process_tree(self.process.pid)
        if self.pid is not None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
        server = multiprocessing.forkserver._forkserver._forkserver_pid
        if server is not None:
            end_descendants(server, keep=[p.pid for p in multiprocessing.active_children() if p is not self.process])

    def _delete_folder(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
