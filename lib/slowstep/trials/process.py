"""The session's side of one trial process: start it, ask it, and say how it ended."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from slowstep.factors import Arm
from slowstep.processes import family
from slowstep.records import Memory, Status
from slowstep.settings.schema import Budget
from slowstep.trials.entry import enter
from slowstep.trials.protocol import Failed, Launch

ENVIRONMENT = {
    # else tokenizers warns and switches itself off after the loader's fork, in some arms and not in others
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # asking whether there is a device must not initialise the driver in the fork server
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    # a killed trial's semaphores are cleaned up by the tracker, which need not say so on the user's terminal
    "PYTHONWARNINGS": "ignore:resource_tracker:UserWarning",
}
POLL_SECONDS = 0.5
TAIL_LINES = 30


class TrialEnded(Exception):
    """The trial is over, for the reason that `failed` gives: a result, which the session records."""

    def __init__(self, failed: Failed):
        super().__init__(f"{failed.status}: {failed.reason}")
        self.failed = failed


def context() -> multiprocessing.context.ForkServerContext:
    """The fork server's context; the server imports what trials need once, while the caller goes on."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if os.environ.get("OMP_WAIT_POLICY", "").lower() == "active":
        del os.environ["OMP_WAIT_POLICY"]  # an idle arm would spin on the other arm's cores for ever
    # a trial is one process on one device; Trainer would spread a batch over all that it sees
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")
    os.environ["CUDA_VISIBLE_DEVICES"] = visible[0].strip()
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["slowstep.trials.preload"])
    multiprocessing.forkserver.ensure_running()
    return server


class TrialProcess:
    """A running trial."""

    def __init__(self, arm: Arm, log: Path, budget: Budget, cache: Path):
        self.arm, self.log, self.budget = arm, log, budget
        log.parent.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="slowstep-trial-"))
        self.peak = Memory()
        self.limit = memory_limit(budget)
        server = context()
        self.connection, theirs = server.Pipe()
        launch = Launch(
            settings=arm.settings, folder=str(self.folder), log=str(log), cache=str(cache), started=time.time()
        )
        self.process = server.Process(target=enter, args=(theirs, launch), name=f"slowstep {arm.label}", daemon=False)
        self.process.start()
        atexit.register(self.end)  # before multiprocessing's own, which would wait for the trial to end by itself
        theirs.close()

    def ask(self, request: Any, timeout: float) -> Any:
        """Send `request` (or nothing, to wait for what comes first) and return the answer; TrialEnded if none comes."""
        if request is not None:
            try:
                self.connection.send(request)
            except OSError:
                self._ended()
        reply = self._receive(timeout)
        if isinstance(reply, Failed):
            self.end()
            limit = reply.memory.limit or self.limit
            raise TrialEnded(replace(reply, memory=replace(reply.memory, limit=limit)))
        return reply

    def _receive(self, timeout: float) -> Any:
        deadline = time.monotonic() + timeout
        while True:
            ready = multiprocessing.connection.wait([self.connection, self.process.sentinel], POLL_SECONDS)
            if self.connection in ready:
                try:
                    return self.connection.recv()
                except (EOFError, OSError):
                    self._ended()
            if ready:
                self._ended()
            self._check_memory()
            if time.monotonic() > deadline:
                with contextlib.suppress(OSError):
                    os.kill(self.process.pid, signal.SIGUSR1)  # the trial writes where it hangs into its log
                time.sleep(0.5)
                self.end()
                raise TrialEnded(
                    Failed(
                        status=Status.TIMED_OUT,
                        reason=f"no answer within {timeout:.0f} s; its log says where it stood",
                        memory=self.peak,
                    )
                )

    def _ended(self) -> None:
        """The process is gone without a word: say what its exit status tells."""
        self.process.join(10)
        code = self.process.exitcode
        used = f"{(self.peak.host or 0) / 2**30:.1f} GiB of {self.limit / 2**30:.1f} GiB allowed"
        self.end()
        if code == -signal.SIGKILL:
            reason = f"killed by SIGKILL, as the kernel does when memory runs out; last seen with {used}"
            raise TrialEnded(Failed(status=Status.OUT_OF_MEMORY, reason=reason, memory=self.peak))
        if code is not None and code < 0:
            reason = f"ended by {signal.Signals(-code).name}"
        else:
            reason = f"exited with status {code} and no word"
        raise TrialEnded(Failed(status=Status.CRASHED, reason=reason, memory=self.peak))

    def _check_memory(self) -> None:
        used = host_memory(self.process.pid, enough=0.7 * self.limit)
        self.peak = Memory(host=max(used, self.peak.host or 0), limit=self.limit)
        if used > self.limit:
            self.end()
            reason = f"the trial took {used / 2**30:.1f} GiB of host memory; {self.limit / 2**30:.1f} GiB are allowed"
            raise TrialEnded(Failed(status=Status.OUT_OF_MEMORY, reason=reason, memory=self.peak))

    def cpu_seconds(self) -> float:
        """Processor time of the trial and its workers so far, those included that ended and were waited for.

        Loader workers end with every epoch: their time passes to their parent, and one may vanish while it is asked.
        """
        seconds = 0.0
        for process in family(self.process.pid):
            with contextlib.suppress(psutil.Error):
                seconds += sum(process.cpu_times()[:4])
        return seconds

    def end(self) -> None:
        """Kill the process group and delete the trial's folder; harmless when repeated."""
        if self.connection.closed:
            return  # its number may be another process's by now
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.process.exitcode is None:
            with contextlib.suppress(OSError):
                os.kill(self.process.pid, signal.SIGKILL)  # if it had not yet become a group leader
        self.process.join(10)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.connection.close()  # last, so that an end that was interrupted is made up for
        atexit.unregister(self.end)


def log_tail(log: Path) -> str:
    """The end of a trial's log; empty where there is none."""
    try:
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:])
    except OSError:
        return ""


def memory_limit(budget: Budget) -> int:
    """Bytes of host memory a trial may take: as set, else nine tenths of what is available now."""
    if budget.memory_limit_gib is not None:
        return int(budget.memory_limit_gib * 2**30)
    return int(0.9 * psutil.virtual_memory().available)


def host_memory(pid: int, enough: float = 0.0) -> int:
    """Bytes that a process and its descendants hold.

    Resident sizes count shared pages once a process; only when they reach `enough` is the exact (slower) share asked.
    """
    held = family(pid)
    resident = 0
    for process in held:
        with contextlib.suppress(psutil.Error):
            resident += process.memory_info().rss
    if resident < enough:
        return resident
    exact = 0
    for process in held:
        with contextlib.suppress(psutil.Error):
            full = process.memory_full_info()
            exact += getattr(full, "pss", full.uss)
    return exact
