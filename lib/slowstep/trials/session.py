"""A session: keeps trials alive while they are needed and measures pairs of blocks, interleaved.

The opinions here, and why:

- Both arms of a comparison stay resident and take turns block by block, in random order, so that drift of the machine
  falls on both. If they don't fit in memory together they are relaunched by turns.
- Now and then both are launched anew, since a launch can be a percent faster or slower for its whole life.
- The baseline stays resident from one comparison to the next, until it has served for longer than its launch took: the
  treatment begins with the first sample and would have to train as far.
- While an arm waits, its loader workers are stopped (`slowstep.trials.loader`), so that no batch comes for nothing; a
  step for each of them, and one more, is discarded at least when its turn comes.
- Both blocks of a pair train on the same samples, as far as the arms draw the same ones: the arm that is behind
  discards steps until it is where the other is. Short blocks of unlike samples differ by more than most changes bring.
- A pair during which the machine was visibly taken away is measured again, at most `budget.redo_blocks` times a
  comparison, and the record says so. Besides, a block is thrown away only where its partner turns out to be past its
  samples already, or had to be launched anew.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median_high

from slowstep.factors import Arm
from slowstep.machine import this_machine, versions
from slowstep.processes import signals
from slowstep.processes.scratch import folder_prefix, remove_abandoned_folders
from slowstep.records import (
    Block,
    ComparisonRecord,
    EventRecord,
    Memory,
    ObservationRecord,
    ProfileRecord,
    Status,
    Steps,
    TrialRecord,
    identity,
)
from slowstep.settings import Settings
from slowstep.settings.convert import to_plain
from slowstep.settings.events import of_whole, steps_between
from slowstep.settings.schema import Budget
from slowstep.trials.comparison import Comparison, Enough
from slowstep.trials.process import TrialEnded, TrialProcess
from slowstep.trials.protocol import Measured, Observe, Occur, Occurred, Profile, Ready, Run

WARMUP_CHUNK = 3
WARMUP_CHUNKS_MAX = 12
SETTLED = 1.05
"""Warm-up ends when a chunk of steps is no longer faster than the one before by more than this ratio."""

OCCURRENCES = 3
"""Times an occasional event is repeated; the first may be slower, and the report shows them all."""

PROFILED_STEPS = 5
"""Enough to see what a step is made of; a trace of more is too large to look at."""

LOOKED_AT_SECONDS, LOOKED_AT_MOST = 4.0, 200
"""Seconds of training, and steps at most, in which the profiled trial's stack is looked at."""

OBSERVED_AT_ONCE = 2.0
"""Seconds of steps that are asked for at once where the baseline is observed by itself."""

PATIENCE = 20.0
"""A block counts as hanging when it takes this many times what the pace of the warm-up lets expect."""


@dataclass
class Trial:
    """A live trial, warmed up, with what is known about it."""

    process: TrialProcess
    record: TrialRecord
    device: str
    occasions: list[str]
    step_seconds: float
    step_samples: float
    period: int
    """Blocks hold a multiple of this many steps, so that each has as many saves, evaluations and bursts of workers."""
    discard: int
    """Steps at the least that go before a block, while batches that lay ready are used up."""
    position: int
    """Samples trained on since the launch."""
    warm: float
    """Samples that it had trained on at the least when its first block could begin."""
    began: float
    """`time.perf_counter()` of the launch."""
    timed: list[Steps] = field(default_factory=list)
    """Its steady steps, answer by answer."""

    @property
    def soonest(self) -> float:
        """Samples that it will have trained on when its next block begins, at the least."""
        return self.position + self.discard * self.step_samples

    @property
    def unit(self) -> float:
        """Samples that its blocks hold a multiple of."""
        return self.period * self.step_samples

    @property
    def outlived(self) -> bool:
        """Whether it has served for longer than its launch took: an arm that begins anew would have to train as far."""
        wall = Counter(self.record.wall)
        return wall["measured blocks"] + wall["discarded steps"] > wall["start-up and warm-up"]


class Session:
    """Measures on this machine. Use it as a context manager: leaving it ends every trial."""

    def __init__(self, budget: Budget, logs: Path):
        self.budget, self.logs = budget, logs
        self.resident: dict[str, Trial] = {}
        self.first: dict[str, TrialRecord] = {}
        """Of each arm, its first launch: later ones find what it compiled."""
        self.measured_seconds = 0.0
        self.steps = 0
        """Optimizer steps trained so far, warm-up and discarded ones included."""
        self.launches = 0
        self.caches = tempfile.TemporaryDirectory(prefix=folder_prefix("caches"), ignore_cleanup_errors=True)
        self.log_of: dict[str, Path] = {}
        """The log of each arm's last launch."""
        self.pace: dict[str, float] = {}
        """Seconds a step of each arm's last launch, when it was warm."""
        self.timed: dict[str, list[list[Steps]]] = {}
        """Steady steps of each arm's launches that no record holds yet."""
        self.lived: dict[str, Counter[str]] = {}
        """Wall time by part of each arm's launches that have ended."""
        remove_abandoned_folders()
        signals.watch(self, self.close)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every trial."""
        for key in list(self.resident):
            self.end(key)
        self.caches.cleanup()
        signals.unwatch(self)

    # -- trials --

    def launch(self, arm: Arm, key: str) -> Trial:
        """A warmed-up trial of `arm`, the resident one of that key if there is one; TrialEnded if it fails."""
        if key in self.resident:
            return self.resident[key]
        self.launches += 1
        began = time.perf_counter()
        log = self.logs / f"{key}-{os.getpid()}-{self.launches}.log"
        self.log_of[key] = log
        process = TrialProcess(arm, log, self.budget, cache=Path(self.caches.name) / key)
        try:
            ready: Ready = process.ask(None, self.budget.startup_timeout_seconds)
            trial = self._warmed_up(process, arm, ready, began, self.pace.get(key, 0.0))
        except BaseException:
            process.end()
            raise
        self.resident[key], self.pace[key] = trial, trial.step_seconds
        self.timed.setdefault(key, []).append(trial.timed)
        return trial

    def _warmed_up(self, process: TrialProcess, arm: Arm, ready: Ready, began: float, known: float) -> Trial:
        """Steps until they get no faster, or are as fast as the arm is known to be."""
        first: Measured = process.ask(Run(steps=1), self.budget.startup_timeout_seconds)
        startup = dict(ready.startup) | {"first step": first.block.seconds}
        previous, steps, settled, spent = first.block.seconds, 1, False, 0.0
        held = [_samples(first.block)]
        for _ in range(WARMUP_CHUNKS_MAX):
            timeout = WARMUP_CHUNK * self.budget.step_timeout_seconds
            chunk: Measured = process.ask(Run(steps=WARMUP_CHUNK), timeout)
            mean = chunk.block.seconds / WARMUP_CHUNK
            steps, spent = steps + WARMUP_CHUNK, spent + chunk.block.seconds
            held.append(_samples(chunk.block))
            settled = previous / mean < SETTLED or mean / SETTLED < known
            previous = min(previous, mean)
            if settled:
                break
        seen = process.ask(Observe(), self.budget.step_timeout_seconds)
        workers = seen.facts.get("dataloader_num_workers") or 0
        trained = steps
        if workers:  # what they made while the first steps were slow would feed the next ones
            request = Run(steps=WARMUP_CHUNK, discard=workers + 1, drain=True)
            chunk = process.ask(request, self.budget.startup_timeout_seconds)
            previous = chunk.block.seconds / WARMUP_CHUNK
            trained += chunk.trained
            held.append(_samples(chunk.block))
        self.steps += trained
        step_samples = median_high(held)  # one of them may hold an epoch's short last batch
        record = TrialRecord(
            arm=arm.label,
            status=Status.OK,
            startup=startup | {"warm-up": spent},
            wall={"start-up and warm-up": time.perf_counter() - began},
            warmup_steps=steps,
            settled=settled,
            observed=seen.facts,
            losses=chunk.losses,
            memory=self._memory(process, chunk.memory),
            log=str(process.log.name),
        )
        return Trial(
            process=process,
            record=record,
            device=ready.device,
            occasions=ready.occasions,
            step_seconds=previous,
            step_samples=step_samples,
            period=_period(seen.facts.get("event_period") or 1, workers),
            discard=workers + 1,
            position=chunk.position,
            warm=chunk.position + (workers + 1) * step_samples,
            began=began,
        )

    def _memory(self, process: TrialProcess, peaks: Memory) -> Memory:
        limit = peaks.limit or process.limit
        return replace(peaks, host=max(peaks.host or 0, process.host_peak()), limit=limit)

    def end(self, key: str) -> None:
        """End the trial of that key and keep what it lived."""
        self.lived[key] = Counter(self.wall(key))
        self.resident.pop(key).process.end()  # harmless where it ended by itself

    def wall(self, key: str) -> dict[str, float]:
        """Seconds by part of all launches of an arm so far, with the time they waited for their turn."""
        lived, trial = Counter(self.lived.get(key)), self.resident.get(key)
        if trial:
            waited = time.perf_counter() - trial.began - sum(trial.record.wall.values())
            lived.update(trial.record.wall | {"waiting for its turn": max(0.0, waited)})
        return dict(lived)

    def timed_steps(self, key: str) -> list[Steps]:
        """The steady steps of an arm since they were last asked for, by launch."""
        found = [sum(answers, Steps()) for answers in self.timed.get(key, ()) if answers]
        for answers in self.timed.get(key, ()):
            answers.clear()
        return found

    def keep_only(self, keys: set[str]) -> None:
        """End every trial but those of `keys`."""
        for key in set(self.resident) - keys:
            self.end(key)

    # -- blocks --

    def block(self, trial: Trial, samples: float, start: float = 0.0) -> Block:
        """One block of `trial` over about so many samples; the first of them is the one numbered `start`, or the next
        that it can have."""
        request = Run(samples=samples, period=trial.period, discard=trial.discard, start=start)
        ahead = max(trial.soonest, start) - trial.position
        measured = self._run(trial, request, ahead + samples + trial.unit, "measured blocks")
        memory = self._memory(trial.process, measured.memory)
        observed = trial.record.observed | {"recompilations": measured.recompilations}
        trial.record = replace(trial.record, memory=memory, observed=observed, losses=measured.losses)
        return measured.block

    def catch_up(self, trial: Trial, start: float) -> None:
        """Train on until a block can soon begin at that sample, so that the arms' turns follow each other closely."""
        behind = start - trial.soonest - 2 * trial.step_samples  # batches may hold more than they did so far
        if behind > 0:
            self._run(trial, Run(samples=behind), behind, "discarded steps")
            trial.timed.append(trial.timed.pop().since(trial.discard))  # they may have found batches ready

    def _run(self, trial: Trial, request: Run, samples: float, part: str) -> Measured:
        """The answer to a request that takes about so many samples; what the block took counts as that part of the
        trial's life, and the rest as discarded."""
        expected = samples / trial.step_samples * trial.step_seconds
        asked = time.perf_counter()
        measured: Measured = trial.process.ask(request, max(self.budget.step_timeout_seconds, PATIENCE * expected))
        spent = time.perf_counter() - asked
        self.steps += measured.trained
        trial.position = measured.position
        trial.timed.append(measured.steps)
        wall = Counter(trial.record.wall)
        wall.update({"discarded steps": spent - measured.block.seconds})
        wall.update({part: measured.block.seconds})
        trial.record = replace(trial.record, wall=dict(wall))
        return measured

    def amortised(self, trial: Trial, settings: Settings, block: Block, events: Collection[str]) -> Block:
        """The block with its share of rare events: each is made to happen once, and counts as often as in the job."""
        phases, added = dict(block.phases), {}
        for event in sorted(set(events) & set(trial.occasions)):
            between = steps_between(settings, event, block.work.samples / block.steps)
            if between is None:
                continue
            done: Occurred = trial.process.ask(Occur(event=event), self.budget.startup_timeout_seconds)
            added[event] = done.seconds * of_whole(settings, done.samples) * block.steps / between
            phases[event] += added[event]
        return replace(block, seconds=block.seconds + sum(added.values()), phases=phases, amortised=added)

    def compare(
        self,
        baseline: Arm,
        treatment: Arm,
        most: int,
        enough: Enough,
        twin: bool = False,
        purpose: str = "",
        looks: Collection[int] = (),
        events: Collection[str] = (),
        least_samples: float = 0.0,
    ) -> ComparisonRecord:
        """Interleaved pairs of the two arms until they are `enough` or `most`; a failed trial is part of the record.

        `twin` runs the treatment as a second process although it is the same arm (an A/A comparison); `purpose` makes
        the order of the pairs another one than that of the same arms' other comparisons. After as many pairs as
        `looks` names, both arms are launched anew, up to `budget.launches` launches each. Of `events` that are too rare
        to meet in a block, each block is given its share (`amortised`). A block holds `least_samples`
        at least, as far as that is not too long.
        """
        began = time.monotonic()
        keys = identity(baseline.determinants()), identity(treatment.determinants(), twin)
        comparison = Comparison(self, (baseline, treatment), keys, purpose, looks, events, least_samples)
        try:
            comparison.run(most, enough)
            record = comparison.record()
        finally:
            if keys[1] in self.resident:
                self.end(keys[1])
        return replace(
            record,
            arms=[identity(arm.determinants()) for arm in (baseline, treatment)],
            seconds=time.monotonic() - began,
            machine=to_plain(this_machine()),
            versions=versions(),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def observe(self, arm: Arm, steps: int, seconds: float) -> ObservationRecord:
        """Train `arm` on for so many more steps, or for so long, and time each of them."""
        key, began, trained = identity(arm.determinants()), time.perf_counter(), 0
        self.keep_only({key})
        record = TrialRecord(arm=arm.label, status=Status.OK)
        try:
            if steps <= 0 or seconds <= 0:
                return ObservationRecord(arm=key, trial=record)
            trial = self.launch(arm, key)
            at_once = max(1, round(OBSERVED_AT_ONCE / trial.step_seconds))
            while trained < steps and (spent := time.perf_counter() - began) < seconds:
                pace = spent / trained if trained else trial.step_seconds
                asked = max(1, min(at_once, steps - trained, round((seconds - spent) / pace)))
                request = Run(steps=asked, discard=0 if trained else trial.discard)
                measured = self._run(trial, request, asked * trial.step_samples, "observed steps")
                trained += measured.block.steps
                self.measured_seconds += measured.block.seconds
            record = trial.record
        except TrialEnded as ended:
            if key in self.resident:
                self.end(key)
            failed = ended.failed
            record = TrialRecord(arm=arm.label, status=failed.status, reason=failed.reason, log=self.log_of[key].name)
        return ObservationRecord(
            arm=key,
            trial=replace(record, steps=self.timed_steps(key)),
            seconds=time.perf_counter() - began,
            machine=to_plain(this_machine()),
            versions=versions(),
        )

    def profile(self, arm: Arm, trace: Path) -> ProfileRecord:
        """Some steps of `arm` under torch.profiler, in a trial of its own that serves for nothing else.

        A trial that fails gives an empty record with the reason.
        """
        self.keep_only(set())
        key = identity(arm.determinants(), "profiled")
        try:
            trial = self.launch(arm, key)
            looks = max(PROFILED_STEPS, min(round(LOOKED_AT_SECONDS / trial.step_seconds), LOOKED_AT_MOST))
            request = Profile(steps=PROFILED_STEPS, trace=str(trace), looks=looks)
            found = trial.process.ask(request, self.budget.startup_timeout_seconds)
            return replace(found, arm=identity(arm.determinants()))
        except TrialEnded as ended:
            return _not_profiled(arm, f"{ended.failed.status}: {ended.failed.reason}")
        finally:
            self.keep_only(set())

    def occasional(self, arm: Arm) -> EventRecord:
        """What saving and evaluating cost in `arm`, each repeated; an event that fails says so."""
        key = identity(arm.determinants())
        seconds: dict[str, list[float]] = {}
        written, samples, failed = {}, {}, {}
        events = self.launch(arm, key).occasions
        for event in events:
            try:
                trial = self.launch(arm, key)
                for _ in range(OCCURRENCES):
                    done = trial.process.ask(Occur(event=event), self.budget.startup_timeout_seconds)
                    seconds.setdefault(event, []).append(done.seconds)
            except TrialEnded as ended:
                if key in self.resident:
                    self.end(key)
                failed[event] = f"{ended.failed.status}: {ended.failed.reason}"
                continue
            if done.bytes is not None:
                written[event] = done.bytes
            if done.samples is not None:
                samples[event] = done.samples
        return EventRecord(seconds=seconds, bytes=written, samples=samples, failed=failed)


def _not_profiled(arm: Arm, why: str) -> ProfileRecord:
    nothing = {"steps": 0, "seconds": 0.0, "operators": [], "idle": 0.0, "gaps_per_step": 0.0, "gap_seconds": 0.0}
    return ProfileRecord(device="cpu", trace="", arm=identity(arm.determinants()), failed=why, **nothing)


def _samples(block: Block) -> float:
    """Of a step."""
    return block.work.samples / block.steps or 1.0


def _period(events: int, workers: int) -> int:
    """Steps after which a trial repeats itself: what happens every so many steps, and the bursts in which batches of
    several workers come; a long period holds many bursts as it is."""
    return events if events >= workers else math.lcm(events, workers)
