"""A few steps of a trial under torch.profiler: which operators take the time, and how long the device stands idle.

The profiler slows what it looks at, so a profiled trial is ended afterwards, and these steps are never judged.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from slowstep_probe.own_time import time
from slowstep_probe.probe.clock import Clock
from slowstep_probe.probe.graphs import any_made
from slowstep_probe.profiled import ProfileRecord
from slowstep_probe.trial.module_calls import ModuleCalls
from slowstep_probe.trial.operator_calls import OperatorCalls
from slowstep_probe.trial.profiled_steps import ANNOTATION, STEP_ENDS, ProfiledSteps

PROFILES_ITSELF = "the program runs a profiler of its own"
"""The reason why there is no profile of a program that has one already."""

EVENTS_AT_MOST, UNREADABLE = 300_000, 600_000
"""The events beyond which fewer steps are profiled, and those of one step that are not read at all. Reading 300,000
takes some ten seconds."""

SMALL_STEP, SHORT_STEP = 100_000, 5.0
"""The most events of a step, and its longest time in seconds, that is looked at by the values of its operators. That
takes some 20 us for each of them."""


class Profiling:
    """A profiler of training steps: of a first one that shows how many events a step has, and then of more.

    No more steps are profiled than can be read in some ten seconds: a loop in Python may have a hundred thousand events
    a step, and what they say is the same in each. What even one step has too many of is not read at all.

    Between the two goes one step without it. What the program has open as the first one ends (`record_function`, of a
    step or less) would else end in a profiler that did not see it begin.

    In steps after these it is looked at what computes the same again (`OperatorCalls`). That is done on a CPU, where a
    call of an operator takes as long as its work, in a program that has compiled nothing and trains `alone`, without
    other ranks.
    """

    def __init__(self, clock: Clock, most: int, phase: Callable[[], str], alone: bool = True):
        """Begin. `most` is the most profiled steps, and `clock` is the training's.

        Its time is that of the profiled steps: a device may still be at what was launched before they began, which the
        profiler does not see, and which would pass for idle time by the host's clock.
        """
        self.on_device, self.steps, self.seconds = clock.kind == "cuda", 0, 0.0
        self.failed = ""
        """The reason why there is nothing to read; empty if there is something."""
        self.ended = False
        """True if it needs no further step."""
        self._most, self._clock = most, clock
        self._waited = list[float]()
        """The seconds for which this thread had waited for a core, as the profiled steps began and as each ended."""
        self._calls, self._ended = ModuleCalls(phase, self.on_device), list[tuple[int, int]]()
        self._operators, self._by_values = OperatorCalls(phase), alone and not self.on_device
        self._then = self._count
        self._start()

    def _start(self) -> None:
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * self.on_device
        self.profiler = profile(activities=activities)
        self.profiler.start()
        self._began = self._clock.begin()

    def step_ends(self) -> None:
        """Do what is due as a step ends."""
        if not self.ended:
            self._then()

    def _count(self) -> None:
        """Choose the number of steps by the events of the first one."""
        if not self._stopped():
            return
        events = len(self.profiler.profiler.kineto_results.events())
        if events > UNREADABLE:
            self._fail(f"one step has {events:,} events, too many to be read")
            return
        self._most = max(1, min(self._most, EVENTS_AT_MOST // max(1, events)))
        self._by_values &= events <= SMALL_STEP
        self._then = self._go_on

    def _go_on(self) -> None:
        """Profile from here on."""
        if torch.autograd._profiler_enabled():
            self._fail(PROFILES_ITSELF)
            return
        self._calls.forget()
        self._waited = [waited_for_core()]
        self._then = self._note
        self._start()

    def _note(self) -> None:
        """Note that a profiled step has ended, in the trace and by this process's clock."""
        self._waited.append(waited_for_core())
        with record_function("slowstep"):  # what is entered for the first time in a while takes some 50 us
            pass
        before = time.perf_counter_ns()
        with record_function(ANNOTATION + STEP_ENDS):
            self._ended.append((before, time.perf_counter_ns()))
        if len(self._ended) == self._most and self._end_profiled_steps():
            if self._by_values and self.seconds / self.steps <= SHORT_STEP and not any_made():
                self._then = self._look
                self._operators.begin()
            else:
                self.ended = True

    def _end_profiled_steps(self) -> bool:
        """End the profiled steps, and return whether there is something to read."""
        ended = self._clock.ended(self._clock.mark())
        self.steps, self.seconds = len(self._ended), sum(self._clock.gaps([self._began, ended]))
        if not self._stopped():
            return False
        self._calls.stop()
        return True

    def _look(self) -> None:
        """Count a step whose operators were looked at by their values."""
        if not self._operators.step_ends():
            self.end()

    def end(self) -> None:
        """Look at no further steps."""
        if not self.ended:
            if self._then != self._look:
                self._end_profiled_steps()
            self._operators.end()
            self.ended = True

    def _stopped(self) -> bool:
        """Stop the profiler, and return True; False if one of the program's own, which runs alone, has ended it."""
        if not torch.autograd._profiler_enabled():
            self._fail(PROFILES_ITSELF)
            return False
        self.profiler.stop()
        return True

    def _fail(self, why: str) -> None:
        self.failed, self.ended = why, True
        self._calls.stop()

    @cached_property
    def profiled(self) -> ProfiledSteps:
        """The steps that were profiled, once it has ended."""
        return ProfiledSteps(
            profiler=self.profiler,
            on_device=self.on_device,
            steps=self.steps,
            seconds=self.seconds,
            waited=self._waited,
            calls=self._calls,
            step_ends=self._ended,
            calls_of_operators=self._operators,
        )

    def read(self, trace: Path) -> ProfileRecord:
        """Return what was seen of the steps, and write the trace to `trace` for Perfetto."""
        with _garbage_left():  # else it is searched again and again while hundreds of thousands of events are made
            self.profiled.write(trace)
            return self.profiled.record(trace)


@contextmanager
def _garbage_left() -> Iterator[None]:
    """Search for no garbage within."""
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searched:
            gc.enable()


def waited_for_core() -> float:
    """Return the seconds for which this thread was ready to run and had no core; 0 where the kernel does not tell."""
    try:
        return 1e-9 * int(Path("/proc/thread-self/schedstat").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0


def warm_up_profiler() -> None:
    """Start a profiler once. The first start loads its tools, which would be seen as a long first step."""
    with profile(activities=[ProfilerActivity.CPU]):
        torch.ones(1).sum()
