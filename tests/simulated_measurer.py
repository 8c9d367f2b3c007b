"""A measurer whose truth is known: it answers in milliseconds what trials would answer in minutes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from slowstep.factors import CATALOGUE, Arm
from slowstep.judgement.comparison import FEWEST_PAIRS
from slowstep.judgement.devices import Peak
from slowstep.measure.going_on import joined, pairs_before
from slowstep.measure.measurer import ComparisonRequest, OnPairs, OnPairsOf
from slowstep.records import (
    PHASES,
    Block,
    ComparisonRecord,
    Environment,
    EventRecord,
    Memory,
    ObservationRecord,
    Pair,
    ProfileRecord,
    Status,
    Steps,
    TrialRecord,
    Work,
    identity,
)
from slowstep.settings import Settings
from slowstep.settings.schema import Budget

SHARES = {"data": 0.1, "host_to_device": 0.02, "forward": 0.25, "backward": 0.45, "optimizer": 0.1, "other": 0.08}
"""The share of each phase in an ordinary step, 0 to 1. Time that is left over belongs to the backward pass."""

MACHINE = {
    "system": "simulated",
    "processor": "a simulated processor",
    "cores": 8,
    "memory": 64 * 2**30,
    "gpu": None,
    "gpu_count": 0,
    "gpu_memory": None,
    "gpu_driver": None,
}

GIB = 2**30


def no_change(arm: Arm, purpose: str) -> float:
    """Return no gain, for any arm."""
    return 0.0


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The truth about a simulated run. Times are in seconds, memory in bytes."""

    sample_seconds: float = 0.025
    phases: Mapping[str, float] = field(default_factory=lambda: dict(SHARES))
    """The share of each phase in a step's time, 0 to 1."""
    gain: Callable[[Arm, str], float] = no_change
    """A function that returns the gain in throughput of an arm for a purpose, over the run as it is: 0.3 for 30 %."""
    phases_of: Callable[[Arm], Mapping[str, float] | None] = lambda arm: None
    """A function that returns the phases of an arm; None if they are the run's."""
    noise: float = 0.005
    """Standard deviation of the logarithm of a block's time."""
    stall_every: int = 0
    """The number of steps of which one stalls; 0 for no stalls."""
    stall_seconds: float = 3.0
    stall_phase: str = "data"
    growth: Mapping[str, float] = field(default_factory=dict)
    """The factor by which a phase is longer in the last step of an observation than in the first; 1 if not given."""
    tokens: int | None = 100
    """Useful tokens a sample; None for data without tokens."""
    padding: int = 0
    """Positions of padding a sample."""
    observed: Mapping[str, object] = field(default_factory=dict)
    """Facts that every trial observes, beside the settings of its arm."""
    memory: Callable[[Arm], int] = lambda arm: GIB
    memory_limit: int = 16 * GIB
    fails: Callable[[Arm], str | None] = lambda arm: None
    """A function that returns why an arm's trial crashes, or None."""
    startup: Callable[[Arm], Mapping[str, float]] = lambda arm: {}
    """A function that returns the seconds of an arm's start by part, as `TrialRecord.startup` names them."""
    seconds_of_event: float = 0.0
    peak: Peak | None = None
    other_peaks: Mapping[str, Peak] = field(default_factory=dict)
    """The device's peaks in other arithmetic than the run's, by PyTorch's name of it."""


class SimulatedMeasurer:
    """Measures a run that does not exist. `asked` holds the label and the purpose of every comparison so far."""

    nodes = 1
    waited_seconds = 0.0

    def __init__(self, truth: Truth, budget: Budget):
        self.truth, self.budget = truth, budget
        self.asked: list[tuple[str, str]] = []
        self.deadline = math.inf
        self.measured_seconds, self.steps = 0.0, 0

    def close(self) -> None:
        """Do nothing, since there is nothing to end."""

    def describe(self) -> Environment:
        """Return a machine that does not exist."""
        return Environment(machine=dict(MACHINE), versions={"torch": "0"}, kit="0")

    def compare(self, request: ComparisonRequest, on_pairs: OnPairs = lambda pairs: None) -> ComparisonRecord:
        """Return pairs whose ratios lie about the truth, until the stop rule is met."""
        self.asked.append((request.treatment.label, request.purpose))
        arms = (request.baseline, request.treatment)
        trials = [self._trial(arm) for arm in arms]
        pairs: list[Pair] = pairs_before(request.earlier)
        drawn = (*(a.determinants() for a in arms), request.purpose, *[len(pairs)] * bool(pairs))
        rng = np.random.default_rng(int(identity(*drawn), 16) % 2**32)
        on_pairs(pairs)
        launch = 0
        failed = any(t.status is not Status.OK for t in trials)
        while not (failed or request.stop.met(pairs)):
            if len(pairs) >= FEWEST_PAIRS and time.monotonic() > self.deadline:
                break
            launch += request.stop.needs_new_launches(pairs)
            first = "baseline" if rng.random() < 0.5 else "treatment"
            sides = [self._block(arm, rng, request, len(pairs)) for arm in arms]
            pairs.append(Pair(first=first, baseline=sides[0], treatment=sides[1], launch=launch))
            on_pairs(pairs)
        new = [p for p in pairs if p.launch >= 0]
        self.measured_seconds += sum(p.baseline.seconds + p.treatment.seconds for p in new)
        timed = [self._steps_of([p.baseline for p in new]), self._steps_of([p.treatment for p in new])]
        record = ComparisonRecord(
            baseline=replace(trials[0], steps=timed[:1]),
            treatment=replace(trials[1], steps=timed[1:]),
            pairs=pairs,
            arms=[identity(arm.determinants()) for arm in arms],
            cut_within=None if failed or request.stop.met(pairs) else self.budget.minutes,
        )
        return joined(request.earlier, record)

    def compare_together(
        self, requests: Sequence[ComparisonRequest], on_pairs: OnPairsOf
    ) -> Iterator[tuple[int, ComparisonRecord]]:
        """Return each comparison as if it were measured alone."""
        for number, request in enumerate(requests):
            yield number, self.compare(request, partial(on_pairs, number))

    def observe(self, arm: Arm, steps: int, seconds: float) -> ObservationRecord:
        """Return `steps` steps, or as many as `seconds` allow, with the stalls among them; none after the deadline."""
        late = time.monotonic() > self.deadline
        seconds = 0.0 if late else seconds
        steps = min(steps, int(seconds / self._step_seconds(arm, "")))
        rng = np.random.default_rng(0)
        rows = self._rows(arm, "", rng, steps)
        if self.truth.stall_every:
            rows[self.truth.stall_phase][:: self.truth.stall_every] += self.truth.stall_seconds
        for phase, factor in self.truth.growth.items():
            rows[phase] *= np.geomspace(1.0, factor, steps)
        begin, batch = 10**6, arm.settings.effective_batch_size
        found = Steps(
            position=[begin + batch * i for i in range(steps)],
            phases={phase: [float(s) for s in column] for phase, column in rows.items()},
        )
        self.steps += steps
        trial = replace(self._trial(arm), steps=[found] if steps else [])
        within = self.budget.minutes if late else None
        return ObservationRecord(arm=identity(arm.determinants()), trial=trial, cut_within=within)

    def events(self, arm: Arm) -> EventRecord:
        """Return the seconds that each periodic event of the run takes."""
        each = self.truth.seconds_of_event
        return EventRecord(seconds={"save": [each] * 3, "evaluate": [each] * 3} if each else {})

    def profile(self, arm: Arm, trace: Path, start: int = 0) -> ProfileRecord:
        """Return a profile in which nothing stands out."""
        nothing = {"operators": [], "idle": 0.1, "gaps_per_step": 10.0, "gap_seconds": 0.01}
        return ProfileRecord(
            device="cpu", steps=5, seconds=5 * self._step_seconds(arm, ""), trace=trace.name,
            arm=identity(arm.determinants()), **nothing,
        )  # fmt: skip

    def peak(self, dtype: str) -> Peak | None:
        """Return the peak of the truth."""
        return self.truth.other_peaks.get(dtype, self.truth.peak)

    def model_sizes(self, settings: Settings) -> dict[str, int]:
        """Return no sizes."""
        return {}

    # -- one arm --

    def _trial(self, arm: Arm) -> TrialRecord:
        truth, needed = self.truth, self.truth.memory(arm)
        known = TrialRecord(
            arm=arm.label,
            status=Status.OK,
            observed=observed(arm) | dict(truth.observed),
            losses=[2.0] * 8,
            startup=dict(truth.startup(arm)),
            memory=Memory(host=min(needed, truth.memory_limit), limit=truth.memory_limit),
        )
        if needed > truth.memory_limit:
            reason = f"the trial took {needed / GIB:.3g} GiB of host memory"
            return replace(known, status=Status.OUT_OF_MEMORY, reason=reason)
        crashed = truth.fails(arm)
        return replace(known, status=Status.CRASHED, reason=crashed) if crashed else known

    def _step_seconds(self, arm: Arm, purpose: str) -> float:
        pace = self.truth.sample_seconds / (1 + self.truth.gain(arm, purpose))
        return pace * arm.settings.effective_batch_size

    def _rows(self, arm: Arm, purpose: str, rng: np.random.Generator, steps: int) -> dict[str, np.ndarray]:
        """Return the seconds of each phase without stalls, each an array (steps,)."""
        phases = dict(self.truth.phases_of(arm) or self.truth.phases)
        phases["backward"] = phases.get("backward", 0.0) + 1 - sum(phases.values())
        whole = self._step_seconds(arm, purpose) * np.exp(rng.normal(0.0, self.truth.noise)) * np.ones(steps)
        return {phase: share * whole for phase, share in phases.items()}

    def _block(self, arm: Arm, rng: np.random.Generator, request: ComparisonRequest, pair: int) -> Block:
        steps = self.budget.block_steps_min
        batch, truth = arm.settings.effective_batch_size, self.truth
        if request.least_samples:  # such blocks are long enough to meet their share of the stalls
            steps = max(steps, round(request.least_samples / batch))
        rows = self._rows(arm, request.purpose, rng, steps)
        if truth.stall_every and request.least_samples and truth.phases_of(arm) is None:
            rows[truth.stall_phase] = rows[truth.stall_phase] + truth.stall_seconds / truth.stall_every
        whole = sum(rows.values())
        self.steps += steps
        n, tokens = batch * steps, truth.tokens
        return Block(
            steps=steps,
            seconds=float(whole.sum()),
            phases={p: float(rows[p].sum()) if p in rows else 0.0 for p in PHASES},
            step_seconds=[float(s) for s in whole],
            work=Work(
                samples=n,
                padded_tokens=None if tokens is None else n * (tokens + truth.padding),
                useful_tokens=None if tokens is None else n * tokens,
                loss_tokens=None if tokens is None else n * tokens // 2,
                cut_tokens=None if tokens is None else 0,
            ),
        )

    def _steps_of(self, blocks: list[Block]) -> Steps:
        """Return the steps of blocks, one after the other."""
        rows = [(b, s / b.seconds, b.work.samples // b.steps) for b in blocks for s in b.step_seconds]
        return Steps(
            position=[int(samples) * i for i, (_, _, samples) in enumerate(rows)],
            phases={p: [b.phases[p] * part for b, part, _ in rows] for p in PHASES},
        )


def observed(arm: Arm) -> dict[str, object]:
    """Return what a trial of the arm observes if every setting has its effect."""
    run, found = arm.settings.run, {}
    for factor in CATALOGUE.values():
        value = factor.current(run)
        if value is not None and factor.wrong_with(value) is None:
            found |= factor.level(value, run).expects
    return {"device": "cpu", "gradient_accumulation_steps": 1} | found
