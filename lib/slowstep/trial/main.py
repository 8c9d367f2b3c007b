"""The trial process: it trains one arm, and measures blocks of steps on demand.

A guard (`slowstep.launch.guard_process`) forks it, writes its log, watches its memory, and ends it with all that it
started. The guard itself is forked from a server that has already imported this module. The server only imports: a
tensor operation before the fork would leave OpenMP's threads behind and hang the child.
"""

from __future__ import annotations

import contextlib
import faulthandler
import math
import multiprocessing
import multiprocessing.connection
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import accelerate.data_loader  # noqa: F401  imported before the fork, so that each trial starts in a moment
import peft  # noqa: F401
import torch
import transformers.trainer  # noqa: F401
from torch.profiler import record_function

import slowstep.workloads.finetune  # noqa: F401
from slowstep.records import Memory, Status, Steps
from slowstep.trial import heap
from slowstep.trial.failure import failure
from slowstep.trial.profiling import ANNOTATION, Profiling, warm_up_profiler
from slowstep.trial.protocol import (
    BlockDone,
    Failed,
    Launch,
    Observe,
    Observed,
    PeriodicEvent,
    PeriodicEventDone,
    Profile,
    Ready,
    Run,
)
from slowstep.trial.schedule import Schedule, Then
from slowstep.trial.stack_sampler import Places
from slowstep.workloads import Workload, checked, load_workload
from slowstep_probe.clock import clock_for
from slowstep_probe.observed import observed
from slowstep_probe.probe import Probe


class Stop(BaseException):
    """The end of training on demand. It is no Exception, so that no handler in the loop takes it for a failure."""


def main(connection: multiprocessing.connection.Connection, launch: Launch) -> None:
    """Train as `launch` says and answer requests over `connection`, until that is closed or the trial fails."""
    entered = time.monotonic()
    # the fork server is the kit's own affair; loader workers start as they would in the user's script
    multiprocessing.set_start_method("fork" if sys.platform == "linux" else "spawn", force=True)
    faulthandler.enable(sys.stderr, all_threads=True)
    faulthandler.register(signal.SIGUSR1, sys.stderr, all_threads=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = launch.cache
    trial = Trial(connection, launch, entered)
    try:
        trial.run()
    except Stop:
        return
    except BaseException as caught:
        error = caught
    # No call stands between the exception and here, and Python lets a signal's handler run only at calls: an exception
    # that the loader's handler of SIGCHLD raises for another worker that died can't take this one's place.
    _without_child_signals()
    _without_child_signals()  # the first may have been struck itself
    with contextlib.suppress(OSError):
        connection.send(failure(error, memory(), trial.killed_workers))
    with contextlib.suppress(BaseException):
        traceback.print_exception(error)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(1)  # what is left would wait for workers that may never end; the guard ends them


def _without_child_signals() -> None:
    """Remove the handler that runs when a worker ends, whatever it raises in the meantime."""
    try:
        while signal.getsignal(signal.SIGCHLD) is not signal.SIG_DFL:
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            except BaseException:
                continue
    except BaseException:
        return


class Trial:
    """One arm in training, from its launch to the last block that is asked for."""

    def __init__(self, connection: multiprocessing.connection.Connection, launch: Launch, entered: float):
        self.connection, self.launch = connection, launch
        self.startup = _entering(launch.started, entered)
        self.freed_memory = heap.settle(launch.settings.freed_memory)
        self.shift = heap.shift()
        self.schedule = Schedule()
        self.passed = Steps()
        """Steady steps between the last block and the one that is open."""
        self.probe: Probe | None = None
        self.ready = False
        self.profiling: tuple[Profiling, Profile] | None = None
        self.looking: tuple[Places, Profile] | None = None

    def killed_workers(self, patience: float) -> list[signal.Signals]:
        """Return the signals that ended loader workers; wait for one at most `patience` seconds."""
        return self.probe.workers.killed(patience) if self.probe else []

    def run(self) -> None:
        """Prepare and train. `at_step_boundary` answers requests between the steps."""
        settings = self.launch.settings
        self.workload: Workload = load_workload(settings.workload)(settings, Path(self.launch.folder))
        self._timed("data", self.workload.prepare_data)
        self._timed("model", self.workload.build_model)
        self._timed("trainer", self.workload.build_trainer)
        self.training_began = time.perf_counter()
        self.probe = Probe(clock_for(self.workload.device), self.at_step_boundary)
        with self.probe.attached():
            self.workload.train()
        raise RuntimeError("train() returned; a trial needs a loop that does not end by itself")

    def _timed(self, part: str, stage: Callable[[], None]) -> None:
        began = time.perf_counter()
        stage()
        self.startup[part] = time.perf_counter() - began

    def at_step_boundary(self) -> None:
        """Count the step that has ended. If it completes what was asked for, send that and wait for a request."""
        if not self.ready:
            self._be_ready()
        else:
            then = self.schedule.step_ended(self.probe.position, self.probe.workers)
            if then is not Then.CLOSE:
                self._go_on(then)
                return
            if self.looking:
                self._begin_profile(*self.looking)
                return
            if self.profiling:
                self._send_profile(*self.profiling)
            else:
                self._send_block()
        self._serve()

    def _begin(self, request: Run) -> None:
        then = self.schedule.begin(request, self.probe.position, self.probe.workers)
        self.probe.workers.go_on()
        self._go_on(then)

    def _go_on(self, then: Then) -> None:
        if then is Then.OPEN:
            self.passed = self.probe.open().since(self.schedule.unsteady)

    def _be_ready(self) -> None:
        """Send `Ready`, before the first step."""
        self.ready = True
        self.startup["first step boundary"] = time.perf_counter() - self.training_began
        events = list(self.workload.periodic_events())
        if torch.cuda.is_initialized():
            torch.cuda.reset_peak_memory_stats()  # the peak of training, not of building
        self.connection.send(Ready(startup=self.startup, device=self.workload.device, periodic_events=events))

    def _send_block(self) -> None:
        block, steps = self.probe.close()
        loss = self.probe.last_loss
        if loss is not None and not math.isfinite(loss):
            self.connection.send(Failed(status=Status.LOSS_NOT_FINITE, reason=f"the loss is {loss}", memory=memory()))
            raise Stop
        again = sum(m.recompile_reason is not None for m in torch._dynamo.utils.get_compilation_metrics())
        measured = BlockDone(
            block=block,
            memory=memory(),
            losses=self.probe.losses,
            trained=self.schedule.trained,
            position=self.probe.position,
            steps=self.passed + steps,
            recompilations=again,
        )
        self.connection.send(measured)

    def _begin_profile(self, places: Places, request: Profile) -> None:
        """Begin the profiled steps, after those in which the stack was looked at."""
        self.looking, self.places = None, places.stop(self.probe.phases())
        self.probe.close()
        warm_up_profiler()
        self.probe.annotation = lambda phase: record_function(ANNOTATION + phase)
        self.profiling = (Profiling(self.workload.device), request)
        self._begin(Run(steps=request.steps))

    def _send_profile(self, profiling: Profiling, request: Profile) -> None:
        self.profiling = self.probe.annotation = None
        seconds = self.probe.close()[0].seconds
        found = profiling.stop(request.steps, seconds, Path(request.trace))
        self.connection.send(replace(found, places=self.places))

    def _serve(self) -> None:
        """Answer requests until one asks for steps. Waiting uses no processor time."""
        self.probe.workers.stop()
        while True:
            try:
                request = self.connection.recv()
            except EOFError:
                raise Stop from None
            if isinstance(request, Run):
                self._begin(request)
                return
            if isinstance(request, Profile):
                self.looking = (Places(self.probe.last_mark), request)
                self._begin(Run(steps=request.looks))
                self.looking[0].start()
                return
            if isinstance(request, PeriodicEvent):
                self.connection.send(self._happen(request.event))
            elif isinstance(request, Observe):
                self.connection.send(Observed(facts=self._observe()))
            else:
                raise Stop

    def _observe(self) -> dict[str, Any]:
        return (
            checked(self.workload.observe(), self.workload) | observed(self.probe) | {"freed_memory": self.freed_memory}
        )

    def _happen(self, event: str) -> PeriodicEventDone:
        clock = self.probe.clock
        clock.synchronize()
        began = time.perf_counter()
        left = self.workload.periodic_events()[event]()
        clock.synchronize()
        seconds = time.perf_counter() - began
        left.clear()
        return PeriodicEventDone(seconds=seconds, bytes=left.bytes, samples=left.samples)


def _entering(asked: float, entered: float) -> dict[str, float]:
    """Return the seconds of the start-up until the process has begun: imports, process.

    The fork server made the imports; a script of the user's own makes them, too. A trial that is asked for while the
    server still imports waits for what `imports` counts already, so `process` leaves that wait out.
    """
    preload = sys.modules.get("slowstep.trial.preload")
    if preload is None:
        return {"imports": 0.0, "process": entered - asked}
    return {"imports": preload.SECONDS, "process": entered - max(asked, preload.READY)}


def memory() -> Memory:
    """Return the memory peaks of this process so far."""
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    if not torch.cuda.is_initialized():
        return Memory(host=host)
    try:
        free, total = torch.cuda.mem_get_info()
    except RuntimeError:  # after some device errors nothing more can be asked
        return Memory(host=host)
    return Memory(
        allocated=torch.cuda.max_memory_allocated(),
        reserved=torch.cuda.max_memory_reserved(),
        device=total - free,
        host=host,
        limit=total,
    )
