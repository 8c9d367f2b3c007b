"""The trial: it runs a program as its command would, and measures blocks of its steps on demand."""

from __future__ import annotations

import base64
import contextlib
import gc
import math
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import torch
from torch.profiler import record_function

from slowstep_probe import devices, heap
from slowstep_probe.changing.changes import Changes
from slowstep_probe.changing.data_parallel import GradientExchange
from slowstep_probe.changing.intervention import Intervention
from slowstep_probe.looks import looking
from slowstep_probe.measured import Status
from slowstep_probe.observed import observed
from slowstep_probe.own_time import time
from slowstep_probe.patches import Patches
from slowstep_probe.probe.clock import device_of
from slowstep_probe.probe.graphs import recompilations
from slowstep_probe.probe.probe import Probe
from slowstep_probe.processes.own_descriptors import keep_open
from slowstep_probe.processes.own_end import OwnEnd
from slowstep_probe.processes.wire import Wire
from slowstep_probe.profiled import ProfileRecord, no_profile
from slowstep_probe.program import to_its_end
from slowstep_probe.ranks.collectives import Collectives
from slowstep_probe.ranks.gathering import OwnRank
from slowstep_probe.ranks.launchers import Launchers
from slowstep_probe.ranks.meeting import Meeting
from slowstep_probe.ranks.rank import ENVIRONMENT
from slowstep_probe.ranks.whereabouts import answer_where
from slowstep_probe.trial.failure import TrainingEnded, failure
from slowstep_probe.trial.memory_peaks import memory_peaks
from slowstep_probe.trial.messages import (
    BlockDone,
    Failed,
    Launch,
    Observe,
    Observed,
    PeriodicEvent,
    PeriodicEventDone,
    Profile,
    Profiled,
    Ready,
    TrainBlock,
    decoded,
    encoded,
)
from slowstep_probe.trial.pass_loops import PassLoops
from slowstep_probe.trial.process_end import end, without_child_signals
from slowstep_probe.trial.profiled_steps import ANNOTATION
from slowstep_probe.trial.profiling import PROFILES_ITSELF, Profiling, warm_up_profiler
from slowstep_probe.trial.program_hooks import hooks
from slowstep_probe.trial.schedule import Schedule, Then
from slowstep_probe.trial.standstill import Standstill
from slowstep_probe.trial.step_hooks import StepHooks
from slowstep_probe.trial.time_by_place import Places
from slowstep_probe.trial.update_calls import own_weights
from slowstep_probe.trial.worker_stacks import WorkerStacks, of_waiting

T = TypeVar("T")

EARLY = 4
"""The first steps. After each of them, models that have become known are changed, and it is noted whether the step drew
random numbers."""


class Trial:
    """One arm in training, from its launch to the last block that is asked for."""

    def __init__(self, wire: Wire, launch: Launch, entered: float, of: OwnRank | None):
        self.wire, self.launch, self.rank = wire, launch, of.rank if of else None
        self.address = of.address if of else None
        # a trial that is asked for while the interpreter still imports waits for what `imports` counts already
        self.startup = {"imports": launch.imports, "process": entered - max(launch.started, launch.ready)}
        self.frozen = gc.get_freeze_count()
        self.freed_memory = heap.settle(launch.freed_memory)
        self.shift = heap.shift()
        self.schedule = Schedule()
        self.together = self.rank is not None and self.rank.size > 1
        """True if this is one of several ranks."""
        self.standstill = Standstill(alone=not self.together)
        self.unsteady = 0
        """The steps between the last block and the one that is open that came before steady ones."""
        asked = launch.intervention or Intervention()
        meets = asked.meets_after if self.together else []
        self.probe = Probe(
            at_step_boundary=self.at_step_boundary,
            together=self.together,
            meets_after=meets[self.rank.number] if meets else 0,
            epoch_of_longest=asked.epoch_of_longest,
        )
        self.collectives, self.exchange = Collectives(self.probe), GradientExchange()
        self.changes: Changes | None = None
        self.step_hooks, self.own_end = StepHooks(), OwnEnd(self._exits)
        self.ready = self.met = False
        self.profiling: tuple[Profiling, Profile] | None = None
        self.profiles_itself = False
        """True if the program was seen to run a profiler of its own."""
        self.looking: tuple[Places, Profile] | None = None
        self.worker_stacks = WorkerStacks()
        self.descriptors = [wire.fileno(), *self.worker_stacks.descriptors]
        """The descriptors that stay open whatever the program closes."""
        if of and of.where:
            self.descriptors.append(of.where.fileno())
            answer_where(of.where, lambda: (self.probe.tape.phase, self.schedule.all_trained))

    def killed_workers(self, patience: float) -> list[signal.Signals]:
        """Return the signals that ended loader workers; wait for one at most `patience` seconds."""
        return self.probe.workers.killed(patience)

    def run(self) -> None:
        """Run the program. `at_step_boundary` answers requests between the steps."""
        os.environ.update(self.launch.env)
        program, asked = self.launch.program, self.launch.intervention
        patches = Patches()
        size = self.rank.size if self.rank else 0
        Meeting(self.launch.meeting, size, self.address).attach(patches)
        self.step_hooks.attach(patches)
        self.own_end.attach(patches)
        self.standstill.attach(patches)
        keep_open(self.descriptors, patches)
        if self.rank is not None:
            self.collectives.attach(patches)
            self.exchange.attach(patches)
            if self.launch.launcher == ENVIRONMENT:
                os.environ.update(self.rank.environment)
        program.enter()
        if asked is not None:
            launchers = Launchers(self.rank, self.launch.launcher, processes=self.launch.processes)
            self.changes = Changes(asked, self.probe, self.give_up, launchers)
            _seed(asked.seed)
        self.began = time.perf_counter()
        with self.changes.attached() if self.changes else self.probe.attached():
            try:
                with to_its_end() as errors:
                    program.run()
                ended = "the program came to its end"
                if (error := self.probe.of_training(errors)) is not None:
                    raise error
            except SystemExit as exit:
                ended = f"the program called sys.exit({exit.code!r:.200})"
        raise self._over(ended)

    def _over(self, how: str) -> TrainingEnded:
        """Return the end of a program that ends by itself, with the steps that it has trained."""
        after = f"after {self.schedule.all_trained} steps" if self.ready else "before its first training step"
        return TrainingEnded(f"{after}: {how}", trained=self.ready)

    def _exits(self, status: int) -> None:
        """Take a process that ends itself with status 0 for training that has ended; any other status is a failure."""
        if status == 0:
            self.give_up(self._over("the program called os._exit(0)"))

    def at_step_boundary(self) -> None:
        """Count the step that has ended. If it completes what was asked for, send that and wait for a request."""
        if self.own_end.is_copy:
            return
        try:
            self._at_step_boundary()
        except Exception as error:
            self.give_up(error)

    def give_up(self, error: BaseException) -> NoReturn:
        """Say that the trial failed, and end it. Nothing is raised, since the program could catch it."""
        without_child_signals()
        with contextlib.suppress(OSError):
            self.wire.send(self._of_failure(failure(error, memory_peaks(), self.killed_workers)), after_failure=True)
        if not isinstance(error, TrainingEnded):  # what the program said last says more than where it ended
            with contextlib.suppress(BaseException):
                traceback.print_exception(type(error), error, error.__traceback__)
        end(1)  # what is left would wait for workers that may never end; the guard ends them

    def _of_failure(self, failed: Failed) -> dict[str, Any]:
        """Return the last message as plain data, with whether an epoch had gone on beyond its end."""
        return encoded(replace(failed, beyond_epoch=self.changes is not None and self.changes.beyond_epoch))

    def _at_step_boundary(self) -> None:
        if self.together and not self.met:
            self._meet()
            return
        if not self.ready:
            self._be_ready()
        else:
            self.own_end.trains_here()
            if self.profiling:
                self.profiling[0].step_ends()
            if self.looking:
                self.pass_loops.step_ended()
                self.profiles_itself |= torch.autograd._profiler_enabled()
            then = self.schedule.step_ended(self.probe.position, self.probe.workers)
            if self.profiling and self.profiling[0].ended and not self.together:  # ranks train on as far as the others
                then = Then.CLOSE
            if self.looking and then is not Then.CLOSE:
                self.worker_stacks.begin(self.probe.workers.pids)
            if self.changes and self.schedule.all_trained <= EARLY:
                if self.schedule.all_trained == 1:
                    self.changes.after_first_step()
                self.changes.after_early_step()
            if then is not Then.CLOSE:
                self._go_on(then)
                return
            if self.looking:
                if self._begin_profile(*self.looking):
                    return
            elif self.profiling:
                self._send_profile(*self.profiling)
            else:
                self._send_block()
        self._serve()

    def _begin(self, request: TrainBlock) -> None:
        then = self.schedule.begin(request, self.probe.position, self.probe.workers)
        self.standstill.end()
        self._go_on(then)

    def _go_on(self, then: Then) -> None:
        if then is Then.OPEN:
            self.collectives.open()
            self.unsteady = self.schedule.unsteady
            self.probe.open()

    def _meet(self) -> None:
        """Train one step before waiting for the first request: until it has ended, ranks may stand in unlike places.

        One of them may ask the loader for a batch to look at while the others wait for it in a collective.
        """
        self.met = True
        hooks.before_first_step()

    def _be_ready(self) -> None:
        """Send `Ready`, before the first step; as one of several ranks after it."""
        self.ready = True
        self.own_end.trains_here()
        if gc.get_freeze_count() <= self.frozen:  # else the program froze its own objects
            gc.unfreeze()  # the warm interpreter froze what it had imported, which the program's own would not
        hooks.before_first_step()
        self.startup |= hooks.seconds
        self.startup["first step boundary"] = time.perf_counter() - self.began - sum(hooks.seconds.values())
        self.startup |= hooks.beforehand
        self.device = hooks.device or device_of(self.launch.on_device)
        self.probe.clock = self.probe.clock.on(None)
        if torch.cuda.is_initialized():
            with contextlib.suppress(RuntimeError):  # another allocator than PyTorch's may tell no peaks
                for number in devices.used():
                    torch.cuda.reset_peak_memory_stats(number)  # the peak of training, not of building
        self._send(Ready(startup=self.startup, device=self.device, periodic_events=list(hooks.periodic_events())))

    def _send_block(self) -> None:
        block, steps = self.probe.close()
        collectives = self.collectives.close()
        loss = self.probe.steps.losses.last
        if loss is not None and not math.isfinite(loss):
            failed = Failed(status=Status.LOSS_NOT_FINITE, reason=f"the loss is {loss}", memory=memory_peaks())
            self.wire.send(self._of_failure(failed))
            end()
        measured = BlockDone(
            block=block,
            memory=memory_peaks(),
            losses=self.probe.steps.losses.first,
            learning_rates=list(self.probe.steps.rates.first),
            trained=self.schedule.trained,
            position=self.probe.position,
            steps=self.probe.passed.since(self.unsteady) + steps,
            queued=self.probe.workers.ready,
            collectives=collectives,
            recompilations=recompilations(),
            devices=devices.identities(),
        )
        self._send(measured)

    def _begin_profile(self, places: Places, request: Profile) -> bool:
        """Begin the profiled steps, after those in which the stack was looked at, and return whether there are any.

        A program that runs a profiler of its own gets no other one, since only one can run at a time.
        """
        self.looking = None
        tape = self.probe.tape
        self.places = of_waiting(places.stop(tape.phases(), tape.reached), self.worker_stacks.end())
        self.beside = places.beside
        self.probe.outermost.at_pass = None
        self.called_again = self.pass_loops.end()
        self.probe.close()
        if self.profiles_itself and not self.together:  # the other ranks have been asked to train on
            self._send(Profiled(record=self._with_looks(no_profile(PROFILES_ITSELF))))
            return False
        warm_up_profiler()
        self.probe.phases.annotation = lambda phase: record_function(ANNOTATION + phase)
        alone = not self.together
        self.profiling = (Profiling(self.probe.clock, request.steps, lambda: tape.phase, alone), request)
        self._begin(TrainBlock(steps=request.after_looks))
        return True

    def _send_profile(self, profiling: Profiling, request: Profile) -> None:
        self.profiling = self.probe.phases.annotation = None
        self.probe.close()
        profiling.end()
        trace = Path(request.trace)
        if request.returned:
            trace = Path(self.launch.meeting) / trace.name
        if profiling.failed:
            self._send(Profiled(record=self._with_looks(no_profile(profiling.failed))))
            return
        found = profiling.read(trace)
        content = base64.b64encode(trace.read_bytes()).decode("ascii") if request.returned else ""
        self._send(Profiled(record=self._with_looks(found), content=content))

    def _with_looks(self, found: ProfileRecord) -> ProfileRecord:
        """Return the record of a profile with what was seen in the steps before it."""
        return replace(found, places=self.places, beside=self.beside, pass_loops=self.called_again)

    def _serve(self) -> None:
        """Answer requests until one asks for steps. Waiting uses no processor time."""
        self.standstill.begin()
        while True:
            try:
                if not self.wire.waits():
                    self.standstill.wait(self.wire.fileno())
                request = decoded(self.wire.receive())
            except EOFError:
                end()
            if isinstance(request, TrainBlock):
                self._begin(request)
                return
            if isinstance(request, Profile):
                weights = partial(own_weights, self.probe)
                self.looking = (Places(self.probe.tape.last_mark, weights, self.step_hooks.codes), request)
                self.pass_loops = PassLoops(lambda: self.probe.tape.phase)
                self.probe.outermost.at_pass = self.pass_loops.called
                self._begin(TrainBlock(steps=request.looks))
                self.worker_stacks.begin(self.probe.workers.pids)
                self.looking[0].begin()
                return
            if isinstance(request, PeriodicEvent):
                self._send(self._awake(partial(self._happen, request)))
            elif isinstance(request, Observe):
                self._send(Observed(facts=self._awake(self._observe)))
            else:
                end()

    def _send(self, message: Any) -> None:
        self.wire.send(encoded(message))

    def _observe(self) -> dict[str, Any]:
        seen = self.changes.facts() if self.changes else {}
        found = seen | dict(hooks.facts()) | observed(self.probe) | {"freed_memory": self.freed_memory}
        if self.launch.group is None:
            return found
        exchange = looking(self.exchange.facts)(self.probe.models, self.probe.loader) or {}
        return found | exchange | self.launch.group.facts

    def _awake(self, do: Callable[[], T]) -> T:
        """Return what `do` does while all that the program has started goes on, but for the workers that feed it.

        An evaluation may have workers of its own, and a dataset may ask another process for its length.
        """
        self.standstill.end(but=self.probe.workers.pids)
        done = do()
        self.standstill.begin()
        return done

    def _happen(self, request: PeriodicEvent) -> PeriodicEventDone:
        clock, event = self.probe.clock, hooks.periodic_events()[request.event]
        looks = Places(lambda: 0, within=self._happen.__name__) if request.looks else None
        clock.synchronize()
        began = time.perf_counter()
        if looks:
            looks.begin()
        left = event()
        clock.synchronize()
        seconds = time.perf_counter() - began
        places = looks.stop([request.event]) if looks else []
        left.clear()
        return PeriodicEventDone(
            seconds=seconds, bytes=left.bytes, samples=left.samples, fixed=left.fixed, places=places
        )


def _seed(seed: int) -> None:
    """Seed what a program may leave to chance, so that all arms draw alike."""
    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
