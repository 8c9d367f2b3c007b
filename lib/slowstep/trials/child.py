"""The trial process: trains one arm and serves blocks of steps on demand.

It is forked from a server that has already imported this module (imports only: any tensor operation before the fork
leaves OpenMP's threads behind and hangs the child), by a guard (`slowstep.trials.guard`) that writes its log, watches
its memory, and ends it with all that it started.
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
from slowstep.trials import heap
from slowstep.trials.clock import clock_for
from slowstep.trials.failure import failure
from slowstep.trials.places import Places
from slowstep.trials.probe import Probe
from slowstep.trials.profiling import ANNOTATION, Profiling, warm_up_profiler
from slowstep.trials.protocol import (
    ROUNDING,
    Failed,
    Launch,
    Measured,
    Observe,
    Observed,
    Occur,
    Occurred,
    Profile,
    Ready,
    Run,
)
from slowstep.workloads import Workload, named

ROUNDS = 3
"""After the queue of a loader that lags behind is used up, this many times the usual steps are discarded, until all
workers deliver evenly."""

DRAIN_AT_MOST = 3
"""Using up a queue is given up after this many times its length in steps: one that is not empty then keeps up."""


class Stop(BaseException):
    """Unwinds the training loop; not an Exception, so that no handler in between takes it for a failure."""


def main(connection: multiprocessing.connection.Connection, launch: Launch) -> None:
    """Entry point of the process."""
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
    """Have no handler run any more when a worker ends, whatever the handler raises meanwhile."""
    try:
        while signal.getsignal(signal.SIGCHLD) is not signal.SIG_DFL:
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            except BaseException:
                continue
    except BaseException:
        return


class Trial:
    """One arm, from nothing to the last block that was asked for."""

    def __init__(self, connection: multiprocessing.connection.Connection, launch: Launch, entered: float):
        self.connection, self.launch = connection, launch
        self.startup = _entering(launch.started, entered)
        self.freed_memory = heap.settle(launch.settings.freed_memory)
        self.shift = heap.shift()
        self.request = Run()
        self.steps = self.discards_left = self.trained = 0
        self.unsteady = 0
        """Steps of the request under way that its discards, or a queue being used up, took."""
        self.passed = Steps()
        """Steady steps between the last block and the one that is open."""
        self.probe: Probe | None = None
        self.ready = self.draining = self.opened = False
        self.profiling: tuple[Profiling, Profile] | None = None
        self.looking: tuple[Places, Profile] | None = None

    def killed_workers(self, patience: float) -> list[signal.Signals]:
        """Return the signals that ended loader workers."""
        return self.probe.workers.killed(patience) if self.probe else []

    def run(self) -> None:
        """Prepare, then train; `at_border` takes it from there."""
        settings = self.launch.settings
        self.workload: Workload = named(settings.workload)(settings, Path(self.launch.folder))
        self._timed("data", self.workload.prepare_data)
        self._timed("model", self.workload.build_model)
        self._timed("trainer", self.workload.build_trainer)
        self.training_began = time.perf_counter()
        self.probe = Probe(clock_for(self.workload.device), self.at_border)
        with self.probe.attached():
            self.workload.train()
        raise RuntimeError("training ended by itself; a trial's training has no end of its own")

    def _timed(self, part: str, stage: Callable[[], None]) -> None:
        began = time.perf_counter()
        stage()
        self.startup[part] = time.perf_counter() - began

    def at_border(self) -> None:
        """Between two steps: count on, or give the block that is complete and wait for what is asked next."""
        if not self.ready:
            self._be_ready()
        elif not self._complete():
            return
        elif self.looking:
            self._begin_profile(*self.looking)
            return
        elif self.profiling:
            self._send_profile(*self.profiling)
        else:
            self._send_block()
        self._serve()

    def _be_ready(self) -> None:
        """Before the first step."""
        self.ready = True
        self.startup["first border"] = time.perf_counter() - self.training_began
        events = list(self.workload.occasions())
        if torch.cuda.is_initialized():
            torch.cuda.reset_peak_memory_stats()  # the peak of training, not of building
        self.connection.send(Ready(startup=self.startup, device=self.workload.device, occasions=events))

    def _complete(self) -> bool:
        """Count the step that has ended, and say whether it was the last of the block that was asked for."""
        self.trained += 1
        if self.opened:
            self.steps += 1
            return self._enough()
        if self.draining or self.discards_left > 0:
            self.unsteady += 1
        if self.draining:
            self._drain()
        else:
            self.discards_left -= 1
            self._open_if_due()
        return False

    def _enough(self) -> bool:
        """Whether the block may end here: at the nearest whole period, where periods hold now more and now fewer
        samples (an epoch ends in a short batch)."""
        asked, samples = self.request, self.probe.position - self.begun
        slack = samples / self.steps * asked.period / 2 if asked.period > 1 else ROUNDING
        return self.steps >= asked.steps and self.steps % asked.period == 0 and samples >= asked.samples - slack

    def _open_if_due(self) -> None:
        if self.discards_left <= 0 and self.probe.position >= self.request.start - ROUNDING:
            self.opened, self.steps, self.begun = True, 0, self.probe.position
            self.passed = self.probe.open().since(self.unsteady)

    def _drain(self) -> None:
        """Use up what the loader made while the first steps were slow; a loader that keeps up has nothing to use up."""
        workers, steps = self.probe.workers, self.trained - self.drain_began
        if workers.ready == 0:
            self.draining = False
            self.discards_left *= ROUNDS  # until the batches of all workers come as evenly as they will
        elif steps % (workers.number + 1) == 0:
            falling = workers.ready < self.lay_ready
            self.draining = falling and steps < DRAIN_AT_MOST * workers.outstanding
            self.lay_ready = workers.ready

    def _send_block(self) -> None:
        block, steps = self.probe.close()
        loss = self.probe.last_loss
        if loss is not None and not math.isfinite(loss):
            self.connection.send(Failed(status=Status.LOSS_NOT_FINITE, reason=f"the loss is {loss}", memory=memory()))
            raise Stop
        again = sum(m.recompile_reason is not None for m in torch._dynamo.utils.get_compilation_metrics())
        measured = Measured(
            block=block,
            memory=memory(),
            losses=self.probe.losses,
            trained=self.trained,
            position=self.probe.position,
            steps=self.passed + steps,
            recompilations=again,
        )
        self.connection.send(measured)
        self.trained = 0

    def _begin_profile(self, places: Places, request: Profile) -> None:
        """The steps in which the stack was looked at have ended."""
        self.looking, self.places = None, places.stop(self.probe.phases())
        self.probe.close()
        warm_up_profiler()
        self.probe.annotation = lambda phase: record_function(ANNOTATION + phase)
        self.profiling = (Profiling(self.workload.device), request)
        self.request, self.opened = Run(steps=request.steps), False
        self._open_if_due()

    def _send_profile(self, profiling: Profiling, request: Profile) -> None:
        self.profiling = self.probe.annotation = None
        seconds = self.probe.close()[0].seconds
        found = profiling.stop(request.steps, seconds, Path(request.trace))
        self.connection.send(replace(found, places=self.places))

    def _serve(self) -> None:
        """Wait, without using the processor, for the next request; return to train on."""
        self.probe.workers.stop()
        while True:
            try:
                request = self.connection.recv()
            except EOFError:
                raise Stop from None
            if isinstance(request, Run):
                self.request, self.discards_left, self.opened, self.unsteady = request, request.discard, False, 0
                self.draining = request.drain and self.probe.workers.ready > 0
                self.drain_began, self.lay_ready = self.trained, self.probe.workers.ready
                self.probe.workers.go_on()
                if not self.draining:
                    self._open_if_due()
                return
            if isinstance(request, Profile):
                self.request, self.discards_left, self.opened = Run(steps=request.looks), 0, False
                self.probe.workers.go_on()
                self.looking = (Places(self.probe.last_mark), request)
                self._open_if_due()
                self.looking[0].start()
                return
            if isinstance(request, Occur):
                self.connection.send(self._occur(request.event))
            elif isinstance(request, Observe):
                self.connection.send(Observed(facts=self._observe()))
            else:
                raise Stop

    def _observe(self) -> dict[str, Any]:
        return self.workload.observe() | {"freed_memory": self.freed_memory}

    def _occur(self, event: str) -> Occurred:
        clock = self.probe.clock
        clock.synchronize()
        began = time.perf_counter()
        left = self.workload.occasions()[event]()
        clock.synchronize()
        seconds = time.perf_counter() - began
        left.clear()
        return Occurred(seconds=seconds, bytes=left.bytes, samples=left.samples)


def _entering(asked: float, entered: float) -> dict[str, float]:
    """Seconds that the fork server spent on the libraries, which a script of one's own spends too, and then on the
    process; a trial that is asked for while the server still imports waits for what `imports` counts already."""
    preload = sys.modules.get("slowstep.trials.preload")
    if preload is None:
        return {"imports": 0.0, "process": entered - asked}
    return {"imports": preload.SECONDS, "process": entered - max(asked, preload.READY)}


def memory() -> Memory:
    """This process's peaks so far."""
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
