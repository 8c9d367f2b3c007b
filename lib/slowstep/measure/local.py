"""The measurer of this machine: it launches trials, and asks them for blocks, events and profiles."""

from __future__ import annotations

import math
import shutil
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
from slowstep.judgement.operators import ENOUGH_STEPS
from slowstep.launch.run_in_subprocess import run_in_subprocess
from slowstep.launch.trial_process import NoTimeLeft, TrialEnded
from slowstep.measure.interleaved import InterleavedComparison
from slowstep.measure.live_trial import OBSERVED, PATIENCE
from slowstep.measure.measurer import LOOKED_AT_SECONDS, OVERTIME, ComparisonRequest, OnPairs, OnPairsOf
from slowstep.measure.own_epochs import EpochsHaveToEnd
from slowstep.measure.pool import TrialPool
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
    identity,
)
from slowstep.settings import Settings
from slowstep.settings.convert import to_plain
from slowstep.settings.schema import Budget
from slowstep_probe.profiled import no_profile
from slowstep_probe.trial.messages import Profile, TrainBlock

CHECK = "slowstep.workloads.check:check"
MODEL_SIZES = "slowstep.workloads.check:sizes"
PEAK = "slowstep_probe.trial.device_peak:measure"
"""The functions that need torch, and run in processes of their own."""

OCCURRENCES = 3
"""The number of times that a periodic event is measured. The first may be slower, and the report shows them all."""

PROFILED_STEPS, PROFILED_SECONDS, FEWEST_PROFILED = 5, 1.0, ENOUGH_STEPS
"""The most profiled steps, enough to see what a step is made of, and the seconds beyond which there are fewer of them,
down to the fewest whose median one disturbed step does not move.

A second of training by many small operators is hundreds of thousands of events, which take half a minute to read and
make a trace too large to look at: 114,000 a step of a 7B by QLoRA on an H100.
"""

LOOKED_AT_MOST = 200
"""The most steps in which the profiled trial's stack is looked at (`LOOKED_AT_SECONDS`)."""

LATE_LOOKS_SECONDS = 2.0
"""The seconds of training in which it is looked at where no time is left."""

LATE_SECONDS = 20.0
"""The seconds that training as far as the steps to be looked at may take, even if they are not left."""

OBSERVED_AT_ONCE = 2.0
"""The seconds of steps that are asked for at once when an arm is observed by itself."""


NO_TIME = "no time was left for it within the minutes (budget.minutes)"

SHORTEST = 0.01
"""The seconds below which an arm whose training ends is observed in no shorter stretches."""


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
        key, began, trained, known = identity(arm.determinants()), time.perf_counter(), 0, 0
        longest, asked_for = OBSERVED_AT_ONCE, seconds
        seconds = min(seconds, self.deadline - time.monotonic())
        within = self.budget.minutes if seconds < asked_for else None
        self.pool.keep_only({key})
        record = seen = TrialRecord(arm=arm.label, status=Status.OK)
        if steps <= 0 or seconds <= 0:
            return ObservationRecord(arm=key, trial=record, cut_within=within if steps > 0 else None)
        while trained < steps and (left := seconds - time.perf_counter() + began) > 0:
            try:
                with self._briefly():
                    trial = self.pool.launch(arm, key)
                    at_once = max(1, round(longest / trial.step_seconds))
                    asked = max(1, min(at_once, steps - trained, round(left / trial.step_seconds)))
                    request = TrainBlock(steps=asked, discard=0 if trial.timed else trial.discard)
                    measured = trial.run(request, asked * trial.step_samples, OBSERVED)
                trained += measured.block.steps
                self.measured_seconds += measured.block.seconds
                record = seen = trial.record
            except NoTimeLeft:
                self.pool.end(key)
                within = self.budget.minutes
                break
            except TrialEnded as ended:
                self.pool.end(key)
                if self.pool.own_epochs.may_help(ended.failed):
                    self.pool.let_epochs_end(ended.failed)
                    trained = known = 0
                    continue
                log = self.pool.log_of[key].name
                record = TrialRecord(arm=arm.label, status=ended.failed.status, reason=ended.failed.reason, log=log)
                if ended.failed.status is not Status.ENDED or longest < SHORTEST:
                    break
                # it goes on where the training begins, in shorter stretches if none was completed
                longest, known = longest if trained > known else longest / 3, trained
        if record.status is Status.ENDED and trained:  # the time was over before it could go on
            record = seen
        return ObservationRecord(
            arm=key,
            trial=replace(record, steps=self.pool.take_steps(key)),
            seconds=time.perf_counter() - began,
            environment=here(),
            cut_within=within if trained < steps else None,
        )

    def events(self, arm: Arm) -> EventRecord:
        """Measure each periodic event of `arm` several times, and once where more would pass the deadline.

        The first time it is seen which lines of code its time goes to. The record says which events failed, or were not
        reached in the time.
        """
        key = identity(arm.determinants())
        seconds: dict[str, list[float]] = {}
        fixed: dict[str, list[float]] = {}
        written, samples, places, failed, cut = {}, {}, {}, {}, False
        with self._briefly():
            try:
                events = self.pool.launch(arm, key).periodic_events
            except NoTimeLeft:
                return EventRecord(seconds={}, failed={"launch": NO_TIME}, cut_within=self.budget.minutes)
            except TrialEnded as ended:
                return EventRecord(seconds={}, failed={"launch": str(ended)})
            for event in events:
                took, fixed[event] = seconds.setdefault(event, []), []
                try:
                    trial = self.pool.launch(arm, key)
                    while len(took) < OCCURRENCES and not (late := self._is_late(took)):
                        done = trial.do(event, looks=not took)
                        places.setdefault(event, done.places)
                        took.append(done.seconds)
                        fixed[event].append(done.fixed)
                    cut = cut or (late and len(took) < OCCURRENCES)
                except NoTimeLeft:
                    self.pool.end(key)
                    cut = True
                    failed |= {} if took else {event: NO_TIME}
                except TrialEnded as ended:
                    self.pool.end(key)
                    failed[event] = str(ended)
                    continue
                if took and done.bytes is not None:
                    written[event] = done.bytes
                if took and done.samples is not None:
                    samples[event] = done.samples
        return EventRecord(
            seconds={event: took for event, took in seconds.items() if took},
            bytes=written,
            samples=samples,
            fixed={event: known for event, known in fixed.items() if any(known)},
            places=places,
            failed=failed,
            cut_within=self.budget.minutes if cut else None,
        )

    def _is_late(self, took: Sequence[float]) -> bool:
        """Return whether an event that has happened would pass the deadline if it happened once more."""
        return bool(took) and time.monotonic() + took[-1] > self.deadline

    def profile(self, arm: Arm, trace: Path, start: int = 0) -> ProfileRecord:
        """Look at some steps of `arm` with torch.profiler, in a trial that is ended afterwards.

        They come after at least `start` samples: a trial that lives goes on, and where none does, one is launched. It
        looks at its next steps if that would take much longer than is left. If the one that lived fails, a new one is
        looked at from its first steps on. A new one that fails gives an empty record with the reason.
        """
        key = identity(arm.determinants())
        lived = key in self.pool.live
        if not lived:
            key = identity(arm.determinants(), "profiled")
        self.pool.keep_only({key})
        with self._briefly():
            return self._profiled(arm, key, trace, start, lived)

    def _profiled(self, arm: Arm, key: str, trace: Path, start: int, lived: bool) -> ProfileRecord:
        most = LOOKED_AT_MOST
        while True:
            try:
                trial = self.pool.launch(arm, key)
                ahead = (start - trial.soonest) / trial.step_samples * trial.step_seconds
                if ahead > max(LATE_SECONDS, self.deadline - time.monotonic()):
                    start = 0
                trial.catch_up(start)
                steps = max(FEWEST_PROFILED, min(round(PROFILED_SECONDS / trial.step_seconds), PROFILED_STEPS))
                if time.monotonic() > self.deadline:  # seldom and long steps, which may hold most of the time, count
                    most = min(most, max(steps, round(LATE_LOOKS_SECONDS / trial.step_seconds)))
                looks = max(steps, min(round(LOOKED_AT_SECONDS / trial.step_seconds), most))
                written, trained = trial.process.folder / trace.name, round(trial.soonest)
                request = Profile(steps=steps, trace=str(written), looks=looks)
                expected = (request.looks + request.after_looks) * trial.step_seconds
                asked = time.monotonic()
                found = trial.process.ask(request, max(self.budget.startup_timeout_seconds, PATIENCE * expected))
                trace.parent.mkdir(parents=True, exist_ok=True)
                if not found.record.failed:
                    shutil.move(written, trace)
                took = time.monotonic() - asked
                return replace(found.record, arm=identity(arm.determinants()), start=start, trained=trained, took=took)
            except NoTimeLeft:
                return not_profiled(arm, NO_TIME)
            except TrialEnded as ended:
                if self.pool.own_epochs.may_help(ended.failed):
                    self.pool.let_epochs_end(ended.failed)
                    continue
                if lived or start:
                    lived, start = False, 0  # the first steps are better than none
                    continue
                if ended.failed.status is Status.ENDED and most > PROFILED_STEPS:
                    most //= 4  # its training is too short for so many
                    continue
                return not_profiled(arm, str(ended))
            finally:
                self.pool.keep_only(set())

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


def not_profiled(arm: Arm, why: str) -> ProfileRecord:
    """Return the empty record of a profile of `arm` that failed."""
    return replace(no_profile(why), arm=identity(arm.determinants()))
