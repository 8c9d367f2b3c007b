"""The measurer's side of one trial: start it, ask it, and say how it ended."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from slowstep.factors import Arm
from slowstep.launch.far_nodes import of_trial, start_far_parts
from slowstep.launch.frozen_bases import FrozenBase, base_of
from slowstep.launch.of_command import warmed
from slowstep.launch.started_trial import GIB, Start, memory_limit, start_trial
from slowstep.launch.warm_interpreter import NotStarted, WarmInterpreter
from slowstep.nodes.member import NodeFailed
from slowstep.processes import tree
from slowstep.records import Memory, Status
from slowstep.settings.schema import Budget
from slowstep.settings.settings import Settings
from slowstep_probe import full_memory
from slowstep_probe.processes.log import last_line
from slowstep_probe.ranks.failures import LOST
from slowstep_probe.trial.messages import Failed, Ready

LAST_WORDS_SECONDS = 10.0
"""The seconds that a failed trial may take to write its traceback and to end by itself."""

LAST_LOOK_SECONDS = 1.5
"""The seconds in which a trial that hangs writes where it stands, and in which its ranks are asked."""


class TrialEnded(Exception):
    """The end of a trial, for the reason that `failed` gives. It is a result, which the measurer records."""

    def __init__(self, failed: Failed):
        super().__init__(f"{failed.status}: {failed.reason}")
        self.failed = failed


class NoTimeLeft(Exception):
    """The end of the time that a trial had to answer. It says nothing of the trial, so it is no result."""


class TrialProcess:
    """A running trial."""

    def __init__(
        self,
        arm: Arm,
        log: Path,
        budget: Budget,
        cache: Path,
        base: FrozenBase | None = None,
        latest: Callable[[], float] = lambda: math.inf,
    ):
        self.arm, self.log, self.budget = arm, log, budget
        self._latest = latest
        """Tells the time, by `time.monotonic()`, after which no answer is waited for."""
        self.started = time.perf_counter()
        self.limit = memory_limit(budget)
        asked = time.monotonic()
        self._far = of_trial(arm.settings)
        start = Start(arm=arm, log=log, cache=cache, limit=self.limit, asked=asked, group=self._far.group, base=base)
        try:
            start_far_parts(self._far, arm, cache)  # other nodes make their imports meanwhile
            self.guarded = start_trial(start, self._warm(arm.settings))
        except NodeFailed as failed:
            raise TrialEnded(Failed(status=Status(failed.status), reason=str(failed))) from None
        except NotStarted as why:
            self._far.close()
            raise TrialEnded(Failed(status=Status.CRASHED, reason=f"its process could not be started: {why}")) from None
        except BaseException:
            self._far.close()
            raise
        self._far.hand_over(self.guarded.connection)
        self._ready: Ready | None = None
        self._began = time.perf_counter()
        self.startup_seconds = 0.0
        """Seconds from its start until it was seen to be ready to train; 0 before that."""
        self.unanswered = False
        """True if a request was interrupted (Ctrl-C) before its answer came. The next answer would be that one."""

    def _warm(self, settings: Settings) -> WarmInterpreter:
        """Return the interpreter that the trial is forked from, with its imports made; TrialEnded if it can't be."""
        interpreter = warmed(settings)
        try:
            interpreter.wait(self.budget.startup_timeout_seconds)
        except (NotStarted, TimeoutError) as why:
            interpreter.close()
            status = Status.TIMED_OUT if isinstance(why, TimeoutError) else Status.CRASHED
            raise TrialEnded(Failed(status=status, reason=str(why))) from None
        return interpreter

    @property
    def pid(self) -> int | None:
        """The number of the process that trains; None if it was never started."""
        return self.guarded.pid

    @property
    def guard(self) -> int:
        """The number of the guard's process, from which all that the trial started descends."""
        return self.guarded.guard

    @property
    def folder(self) -> Path:
        """The folder that the trial writes to."""
        return self.guarded.folder

    def ready(self) -> Ready:
        """Return what the trial tells as soon as it could train; TrialEnded if it fails, or takes too long to come."""
        if self._ready is None:
            waited = time.perf_counter() - self._began  # for others that were started at the same time
            self._ready = self.ask(None, max(LAST_LOOK_SECONDS, self.budget.startup_timeout_seconds - waited))
            self.startup_seconds = time.perf_counter() - self.started
        return self._ready

    def ask(self, request: Any, timeout: float) -> Any:
        """Send `request` and return the answer; TrialEnded if none comes within `timeout` seconds, or the trial fails.

        None as the request sends nothing, and waits for the trial's first message. NoTimeLeft, and the end of the
        trial, if nothing is waited for any longer.
        """
        self.unanswered = True
        if request is not None:
            try:
                self.guarded.send(request)
            except OSError:
                raise self._ended() from None
        reply = self._receive(timeout)
        self.unanswered = False
        if isinstance(reply, Failed):
            raise self._failed(reply)
        if self.host_peak() > self.limit:  # it may have been taken and given back since the guard looked
            raise self._ended()
        return reply

    def host_peak(self) -> int:
        """Return the most host memory, in bytes, that the trial has held at any time so far."""
        return self.guarded.peak()

    def host_memory(self) -> int:
        """Return the bytes of host memory that the trial's process tree holds now."""
        return tree.host_memory(self.guard)

    def host_memory_at_most(self) -> int:
        """Return the bytes that its processes hold, quickly: what they share counts for each of them."""
        return tree.resident_memory(self.guard)

    def memory_beside(self, settings: Settings) -> int:
        """Return the bytes of host memory that another trial of `settings` would take beside this one.

        It is what this one holds, but the frozen base that both of them map.
        """
        base = base_of(settings)
        if base is not None and base == base_of(self.arm.settings):
            return tree.own_memory(self.guard)
        return self.host_memory()

    def cpu_seconds(self) -> float:
        """Return the processor seconds of the trial's process tree so far, with those of children that have ended."""
        return tree.cpu_seconds(self.guard)

    def bytes_fetched(self) -> int | None:
        """Return the bytes that the kernel has fetched from storage for the trial's process tree, if that is told."""
        return tree.bytes_fetched(self.guard)

    def end(self) -> None:
        """End the trial's process tree and delete its folder. Repeating this is harmless."""
        self.guarded.end()
        self._keep_far_logs()

    def _receive(self, timeout: float) -> Any:
        left = max(0.0, self._latest() - time.monotonic())
        try:
            return self.guarded.receive(min(timeout, left))
        except EOFError:
            raise self._ended() from None
        except TimeoutError:
            if left < timeout:
                self.guarded.end()
                raise NoTimeLeft from None
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGUSR1)  # the trial writes where it hangs into its log
            with contextlib.suppress(TimeoutError, EOFError):  # ranks that hang are told apart by their leader
                told = self.guarded.receive(LAST_LOOK_SECONDS)
                if isinstance(told, Failed):
                    raise self._failed(told) from None
            peak = self.guarded.end().peak
            reason = f"no answer within {timeout:.0f} s; its log says where it stood"
            raise self._over(Failed(status=Status.TIMED_OUT, reason=reason, memory=Memory(host=peak))) from None

    def _failed(self, failed: Failed) -> TrialEnded:
        """Return the end of a trial that said itself how it failed. It may write its traceback before it is ended."""
        ended = self.guarded.end(grace=LAST_WORDS_SECONDS)
        if LOST in failed.reason and (why := self._far.why()):
            failed = replace(failed, status=Status(why.status), reason=str(why))
        self._keep_far_logs()
        known = failed.memory
        memory = replace(known, host=max(known.host or 0, ended.peak), limit=known.limit or self.limit)
        by_itself = any(words in failed.reason for words in ("called sys.exit", "called os._exit", "came to its end"))
        said = last_line(self.log) if by_itself else ""  # a program may catch its own error
        reason = f"{failed.reason}; its last words: {said}" if said else failed.reason
        return self._over(replace(failed, reason=reason, memory=memory))

    def _keep_far_logs(self) -> None:
        """Add what ranks on other nodes printed last to the trial's log, once."""
        if text := self._far.logs():
            with contextlib.suppress(OSError), open(self.log, "a", encoding="utf-8") as log:
                log.write(text + "\n")

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
            if full_memory.is_told(said):  # bitsandbytes exits so where there is no room for what it pages
                status = Status.OUT_OF_MEMORY
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


def _gib(size: int) -> str:
    """Return a size in GiB with three digits, so that 50 MiB don't read as nothing."""
    return f"{size / GIB:.3g} GiB" if size < 1000 * GIB else f"{size / GIB:.0f} GiB"
