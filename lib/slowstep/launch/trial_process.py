"""The measurer's side of one trial: start it, ask it, and say how it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from slowstep.factors import Arm
from slowstep.launch.entry import enter
from slowstep.launch.fork_server import context
from slowstep.launch.guarded_process import Guarded
from slowstep.launch.log import last_line, log_tail
from slowstep.launch.memory import host_memory
from slowstep.processes import process_tree
from slowstep.processes.memory import available
from slowstep.processes.scratch import folder_prefix
from slowstep.records import Memory, Status
from slowstep.settings.schema import Budget
from slowstep.trial.protocol import Failed, Launch

__all__ = ["TrialEnded", "TrialProcess", "context", "host_memory", "log_tail", "memory_limit"]

LAST_WORDS_SECONDS = 10.0
"""The seconds that a failed trial may take to write its traceback and to end by itself."""

GIB = 2**30


class TrialEnded(Exception):
    """The end of a trial, for the reason that `failed` gives. It is a result, which the measurer records."""

    def __init__(self, failed: Failed):
        super().__init__(f"{failed.status}: {failed.reason}")
        self.failed = failed


class TrialProcess:
    """A running trial."""

    def __init__(self, arm: Arm, log: Path, budget: Budget, cache: Path):
        self.arm, self.log, self.budget = arm, log, budget
        self.started = time.perf_counter()
        log.parent.mkdir(parents=True, exist_ok=True)
        self.limit = memory_limit(budget)
        folder = Path(tempfile.mkdtemp(prefix=folder_prefix("trial")))
        launch = Launch(settings=arm.settings, folder=str(folder), cache=str(cache), started=time.monotonic())
        self.guarded = Guarded(enter, launch, log=log, folder=folder, limit=self.limit, name=f"slowstep {arm.label}")

    @property
    def pid(self) -> int | None:
        """The number of the process that trains; None if it was never started."""
        return self.guarded.pid

    @property
    def process(self) -> Any:
        """The guard's process, from which all that the trial started descends."""
        return self.guarded.process

    @property
    def folder(self) -> Path:
        """The folder that the trial writes to."""
        return self.guarded.folder

    @property
    def connection(self) -> Connection:
        """The pipe to the trial."""
        return self.guarded.connection

    def ask(self, request: Any, timeout: float) -> Any:
        """Send `request` and return the answer; TrialEnded if none comes within `timeout` seconds, or the trial fails.

        None as the request sends nothing, and waits for the trial's first message.
        """
        if request is not None:
            try:
                self.connection.send(request)
            except OSError:
                raise self._ended() from None
        reply = self._receive(timeout)
        if isinstance(reply, Failed):
            raise self._failed(reply)
        if self.host_peak() > self.limit:  # it may have been taken and given back since the guard looked
            raise self._ended()
        return reply

    def host_peak(self) -> int:
        """Return the most host memory, in bytes, that the trial has held at any time so far."""
        return self.guarded.peak()

    def cpu_seconds(self) -> float:
        """Return the processor seconds of the trial's process tree so far, with those of children that have ended.

        Loader workers end with every epoch: their time passes to their parent, and one may vanish while it is asked.
        """
        seconds = 0.0
        for process in process_tree(self.process.pid):
            with contextlib.suppress(psutil.Error):
                seconds += sum(process.cpu_times()[:4])
        return seconds

    def end(self) -> None:
        """End the trial's process tree and delete its folder. Repeating this is harmless."""
        self.guarded.end()

    def _receive(self, timeout: float) -> Any:
        try:
            return self.guarded.receive(timeout)
        except EOFError:
            raise self._ended() from None
        except TimeoutError:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGUSR1)  # the trial writes where it hangs into its log
            time.sleep(0.5)
            peak = self.guarded.end().peak
            reason = f"no answer within {timeout:.0f} s; its log says where it stood"
            raise self._over(Failed(status=Status.TIMED_OUT, reason=reason, memory=Memory(host=peak))) from None

    def _failed(self, failed: Failed) -> TrialEnded:
        """Return the end of a trial that said itself how it failed. It may write its traceback before it is ended."""
        ended = self.guarded.end(grace=LAST_WORDS_SECONDS)
        known = failed.memory
        memory = replace(known, host=max(known.host or 0, ended.peak), limit=known.limit or self.limit)
        return self._over(replace(failed, memory=memory))

    def _ended(self) -> TrialEnded:
        """Return the end of a trial that is gone without a message, by its exit status."""
        ended = self.guarded.end(grace=LAST_WORDS_SECONDS)
        used = f"{_gib(ended.peak)} of {_gib(self.limit)} allowed"
        status, said = Status.CRASHED, last_line(self.log)
        if ended.code == -signal.SIGKILL:
            status = Status.OUT_OF_MEMORY
            reason = f"killed by SIGKILL, as the kernel does when memory runs out; it had taken {used}"
        elif ended.code == -signal.SIGBUS:
            reason = "ended by SIGBUS, as happens when /dev/shm or a disk is full under a memory-mapped file"
        elif ended.code is not None and ended.code < 0:
            reason = f"ended by {signal.Signals(-ended.code).name}"
        elif ended.code is None:
            reason = "its connection is gone"
        else:
            reason = f"exited with status {ended.code} without an error message" + (
                f"; its log ends: {said}" if said else ""
            )
        memory = Memory(host=ended.peak or None, limit=self.limit)
        return self._over(Failed(status=status, reason=reason, memory=memory))

    def _over(self, failed: Failed) -> TrialEnded:
        """Return the end of a trial. More memory than allowed is the reason before all others."""
        ended = self.guarded.end()
        if not ended.over and ended.peak <= self.limit:
            return TrialEnded(failed)
        allowed = f"{_gib(self.limit)} are allowed (budget.memory_limit_gib)"
        if self.budget.memory_limit_gib is None:
            allowed = f"{_gib(self.limit)} were available"
        reason = f"the trial took {_gib(ended.peak)} of host memory; {allowed}"
        memory = Memory(host=ended.peak, limit=self.limit)
        return TrialEnded(Failed(status=Status.OUT_OF_MEMORY, reason=reason, memory=memory))


def memory_limit(budget: Budget) -> int:
    """Return the bytes of host memory that a trial may take: as set, else nine tenths of what is available now."""
    if budget.memory_limit_gib is not None:
        return int(budget.memory_limit_gib * GIB)
    return int(0.9 * available())


def _gib(size: int) -> str:
    """Return a size in GiB with three digits, so that 50 MiB don't read as nothing."""
    return f"{size / GIB:.3g} GiB" if size < 1000 * GIB else f"{size / GIB:.0f} GiB"
