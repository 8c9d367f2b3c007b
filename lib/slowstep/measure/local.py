"""The measurer of this machine: it launches trials, and asks them for blocks, events and profiles."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from slowstep import __version__
from slowstep.environment.machine import this_machine, versions
from slowstep.factors import Arm
from slowstep.judgement.devices import MEASURED, Peak
from slowstep.launch.run_in_subprocess import run_in_subprocess
from slowstep.measure.event_timing import time_events
from slowstep.measure.interleaved import InterleavedComparison
from slowstep.measure.measurer import OVERTIME, ComparisonRequest, OnPairs, OnPairsOf
from slowstep.measure.observing import Observing
from slowstep.measure.own_epochs import EpochsHaveToEnd
from slowstep.measure.pool import TrialPool
from slowstep.measure.profiling import Profiling
from slowstep.measure.rounds import Rounds
from slowstep.nodes.current import open_session
from slowstep.records import (
    ComparisonRecord,
    Environment,
    EventRecord,
    ObservationRecord,
    ProfileRecord,
    Status,
    TrialRecord,
)
from slowstep.settings import Settings
from slowstep.settings.convert import to_plain
from slowstep.settings.schema import Budget

CHECK = "slowstep.workloads.check:check"
MODEL_SIZES = "slowstep.workloads.check:sizes"
PEAK = "slowstep_probe.trial.device_peak:measure"
"""The functions that need torch, and run in processes of their own."""


def here() -> Environment:
    """Return this machine and its packages, and the nodes that measure with it."""
    session = open_session()
    nodes = session.records if session else []
    return Environment(machine=to_plain(this_machine()), versions=versions(), kit=__version__, nodes=nodes)


class LocalMeasurer:
    """Measures on this machine. Use it as a context manager: leaving it ends every trial."""

    nodes = 1
    waited_seconds = 0.0

    def __init__(self, budget: Budget, logs: Path):
        self.budget, self.logs = budget, logs
        self.measured_seconds = 0.0
        self.deadline = math.inf
        self._pool: TrialPool | None = None
        self._steps = 0
        """Optimizer steps of the pools that were closed."""

    def __enter__(self) -> LocalMeasurer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every trial."""
        if self._pool is not None:
            self._pool.close()
            self._steps, self._pool = self._steps + self._pool.steps, None

    @property
    def pool(self) -> TrialPool:
        """The trials, made when the first is needed."""
        if self._pool is None:
            self._pool = TrialPool(self.budget, self.logs)
        return self._pool

    @property
    def steps(self) -> int:
        """Optimizer steps trained so far, warm-up and discarded steps included."""
        return self._steps + (self._pool.steps if self._pool else 0)

    def describe(self) -> Environment:
        """Return this machine and its packages."""
        return here()

    def compare(self, request: ComparisonRequest, on_pairs: OnPairs = lambda pairs: None) -> ComparisonRecord | None:
        """Measure interleaved pairs of two arms until the stop rule is met. `on_pairs` gets the pairs so far.

        None if the minutes are over by `OVERTIME` before there are pairs enough for an interval.
        """
        with self._within_minutes(request):
            return self._compared(InterleavedComparison(self.pool, request, self.deadline), on_pairs)

    @contextmanager
    def _within_minutes(self, *requests: ComparisonRequest) -> Iterator[None]:
        """Wait for no trial once the minutes are over by `OVERTIME`, but for twins.

        How much the run differs from itself has to be known, however long that takes.
        """
        twins = any(request.twin for request in requests)
        with self._waiting_until(math.inf if twins else self.deadline + self._overtime):
            yield

    @contextmanager
    def _briefly(self) -> Iterator[None]:
        """Wait for no trial once the minutes are over by `OVERTIME`, which is left even if they are over already."""
        with self._waiting_until(max(self.deadline, time.monotonic()) + self._overtime):
            yield

    @contextmanager
    def _waiting_until(self, latest: float) -> Iterator[None]:
        """Wait for no trial after that time: whoever asks one meets NoTimeLeft."""
        self.pool.latest = latest
        try:
            yield
        finally:
            self.pool.latest = math.inf

    @property
    def _overtime(self) -> float:
        """The seconds by which what is begun may last longer than until the deadline."""
        return math.inf if self.budget.minutes is None else OVERTIME * 60 * self.budget.minutes

    def _compared(self, comparison: InterleavedComparison, on_pairs: OnPairs) -> ComparisonRecord | None:
        """Measure a comparison to its end."""
        began, known = time.monotonic(), len(comparison.pairs)
        try:
            try:
                record = comparison.run(on_pairs)
            except EpochsHaveToEnd as why:
                self.pool.let_epochs_end(why.failed)
                request = replace(comparison.request, earlier=None)
                comparison, known = InterleavedComparison(self.pool, request, self.deadline), 0
                record = comparison.run(on_pairs)
        finally:
            self.pool.end(comparison.keys[1])
        if record is None:
            return None
        blocks = [block for pair in record.pairs[known:] for block in pair.blocks]
        self.measured_seconds += sum(block.seconds for block in blocks)
        return _dated(replace(record, seconds=record.seconds + time.monotonic() - began))

    def compare_together(
        self, requests: Sequence[ComparisonRequest], on_pairs: OnPairsOf
    ) -> Iterator[tuple[int, ComparisonRecord]]:
        """Measure several comparisons of one baseline in rounds, and then by themselves those that do not fit in.

        None of these begins after the deadline.
        """
        rounds = Rounds(self.pool, requests, self.deadline)
        with self._within_minutes(*requests):
            for number, record in rounds.run(on_pairs):
                yield number, _dated(record)
        self.measured_seconds += rounds.measured_seconds
        for member in sorted(rounds.alone, key=lambda member: member.number):
            if not member.has_begun and time.monotonic() > self.deadline:
                continue
            comparison = InterleavedComparison(self.pool, member.request, self.deadline)
            comparison.go_on_from(member)
            with self._within_minutes(member.request):
                record = self._compared(comparison, partial(on_pairs, member.number))
            if record is not None:
                yield member.number, replace(record, seconds=record.seconds + member.seconds)

    def observe(self, arm: Arm, steps: int, seconds: float) -> ObservationRecord:
        """Train `arm` on for `steps` more steps, or for `seconds` at most, and time each step."""
        left = min(seconds, self.deadline - time.monotonic())
        observing = Observing(self.pool, arm)
        self.pool.keep_only({observing.key})
        is_cut = left < seconds
        if steps <= 0 or left <= 0:
            nothing = TrialRecord(arm=arm.label, status=Status.OK)
            cut_within = self.budget.minutes if is_cut and steps > 0 else None
            return ObservationRecord(arm=observing.key, trial=nothing, cut_within=cut_within)
        with self._briefly():
            record = observing.run(steps, left)
        self.measured_seconds += observing.measured_seconds
        is_cut = (is_cut or observing.out_of_time) and observing.trained < steps
        return replace(record, environment=here(), cut_within=self.budget.minutes if is_cut else None)

    def events(self, arm: Arm) -> EventRecord:
        """Measure each periodic event of `arm` several times, and once where more would pass the deadline.

        The first time it is seen which lines of code its time goes to. The record says which events failed, or were not
        reached in the time.
        """
        with self._briefly():
            return time_events(self.pool, arm, self.deadline)

    def profile(self, arm: Arm, trace: Path, start: int = 0) -> ProfileRecord:
        """Look at some steps of `arm` with torch.profiler, in a trial that is ended afterwards.

        They come after at least `start` samples: a trial that lives goes on, and where none does, one is launched. It
        looks at its next steps if that would take much longer than is left. If the one that lived fails, a new one is
        looked at from its first steps on. A new one that fails gives an empty record with the reason.
        """
        with self._briefly():
            return Profiling(self.pool, arm, start, self.deadline).run(trace)

    def peak(self, dtype: str) -> Peak | None:
        """Measure for a second what the device reaches; None if that fails, as without memory for it."""
        try:
            tflops, bandwidth, device, threads = run_in_subprocess(PEAK, dtype)
        except RuntimeError:
            return None
        source = f"{MEASURED}: {dtype} matmul on {device}"
        return Peak(tflops=tflops, bandwidth=bandwidth, source=source, threads=threads)

    def model_sizes(self, settings: Settings) -> dict[str, int]:
        """Return the sizes of the model; {} if it can't be had."""
        return model_sizes(settings)


def _dated(record: ComparisonRecord) -> ComparisonRecord:
    """Return a record with the machine, its packages and the time."""
    return replace(record, environment=here(), date=datetime.now(UTC).isoformat(timespec="seconds"))


def checked(settings: Settings) -> list[tuple[str, str]]:
    """Return (key, reason) for all that the installed libraries refuse; RuntimeError if that comes to no end."""
    return [] if settings.command else [(key, reason) for key, reason in run_in_subprocess(CHECK, settings)]


def model_sizes(settings: Settings) -> dict[str, int]:
    """Return the sizes of a model, as a process with torch finds them out; {} if the model can't be had."""
    return {} if settings.command else run_in_subprocess(MODEL_SIZES, settings)
