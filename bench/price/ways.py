"""Two ways from twelve levels to twelve verdicts: the kit's pairs, and runs that are repeated one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from bench.price.machines import STEP, Clock, Machine, Recorded
from slowstep.investigation.together import MOST_TOGETHER
from slowstep.judgement.block_length import FIRST_BLOCK_SECONDS, block_length
from slowstep.judgement.comparison import OVERALL_P, change
from slowstep.judgement.intervals import NOMINAL_P
from slowstep.judgement.stopping import StopRule
from slowstep.records import Block, Pair, Work
from slowstep.settings.schema import Budget

MINIMUM_EFFECT = 0.05

BASELINE = -1
"""The number of the baseline among the levels of a round."""

SUPPORTED, REFUTED, OPEN = "supported", "refuted", "inconclusive"


@dataclass(frozen=True, kw_only=True)
class Launches:
    """Seconds from the launch of an arm to its first steady step, and seconds of a turn."""

    kit: float
    """Seconds of a trial, whose interpreter is forked with the libraries imported."""
    together: float
    """Seconds of each treatment of a round. They are built at the same time."""
    turn: float = 0.3
    """Seconds that a turn takes beside its block."""
    run: float
    """Seconds of a run that is started by its command."""
    once: float = 0.0
    """Seconds that the kit spends once, before its first trial: it imports the libraries."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a way of measuring came to."""

    seconds: float
    verdicts: list[str]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What is known of one level's gain, as log-ratios."""

    mean: float
    upper: float
    p: float


def kit(machine: Machine | Recorded, rng: np.random.Generator, gains: Sequence[float], launches: Launches) -> Outcome:
    """The kit's own rules: A/A pairs, the block that follows from them, and rounds of levels until each is decided.

    Which levels share their rounds is drawn: nobody knows their gains beforehand.
    """
    clock, budget = Clock(machine, rng), Budget()
    clock.wait(launches.once)
    baseline = Baseline(clock, launches)
    (alike,) = _rounds(baseline, [0.0], FIRST_BLOCK_SECONDS, StopRule(max_pairs=budget.noise_pairs), budget)
    length = block_length(alike, launches.turn, MINIMUM_EFFECT, budget.block_steps_min)
    block = length.seconds if length else FIRST_BLOCK_SECONDS
    rule = StopRule(max_pairs=budget.max_pairs, minimum_effect=MINIMUM_EFFECT, comparisons=len(gains))
    known: dict[int, Estimate] = {}
    order = [int(level) for level in rng.permutation(len(gains))]
    for i in range(0, len(order), MOST_TOGETHER):
        levels = order[i : i + MOST_TOGETHER]
        for level, pairs in zip(
            levels, _rounds(baseline, [gains[n] for n in levels], block, rule, budget), strict=True
        ):
            effect = change(pairs)
            known[level] = Estimate(mean=effect.mean, upper=effect.upper, p=effect.p)
    verdicts = judged([known[level] for level in range(len(gains))], NOMINAL_P)
    return Outcome(seconds=clock.seconds, verdicts=verdicts)


class Baseline:
    """The launch of the run as it is, which serves several comparisons as long as that pays (`measure.rounds`)."""

    def __init__(self, clock: Clock, launches: Launches):
        self.clock, self.launches = clock, launches
        self.launch()

    def launch(self) -> None:
        """Launch it anew."""
        self.offset, self.trained = self.clock.launch(self.launches.kit), 0.0

    def joined(self, levels: int) -> list[float]:
        """Launch treatments and let them train as far; return what the launch of each keeps for its life."""
        offsets = []
        for _ in range(levels):
            offsets.append(self.clock.launch(self.launches.together if levels > 1 else self.launches.kit))
            self.clock.wait(self.trained)
        return offsets


def _rounds(
    baseline: Baseline, gains: Sequence[float], seconds: float, rule: StopRule, budget: Budget
) -> list[list[Pair]]:
    """The pairs of levels that are measured together: a round is a block of the baseline and one of each level."""
    clock, launch = baseline.clock, 0
    if len(gains) * baseline.trained > baseline.launches.kit:
        baseline.launch()
    offsets = dict(enumerate(baseline.joined(len(gains))))
    pairs: list[list[Pair]] = [[] for _ in gains]
    steps = max(budget.block_steps_min, round(seconds / STEP))
    while live := [level for level, of_level in enumerate(pairs) if not rule.met(of_level)]:
        if any(rule.needs_new_launches(pairs[level]) for level in live) and launch + 1 < budget.launches:
            baseline.launch()
            launch += 1
            offsets |= dict(zip(live, baseline.joined(len(live)), strict=True))
        first = {level: bool(clock.rng.integers(2)) for level in live}
        before = [level for level in live if first[level]]
        after = [level for level in live if not first[level]]
        blocks = {}
        for level in (*clock.rng.permutation(before), BASELINE, *clock.rng.permutation(after)):
            clock.wait(baseline.launches.turn)
            of_level = level != BASELINE
            pace = np.exp(offsets[int(level)]) / (1 + gains[int(level)]) if of_level else np.exp(baseline.offset)
            blocks[int(level)] = _block(clock.steps(steps, pace))
        baseline.trained += seconds
        for level in live:
            name = "treatment" if first[level] else "baseline"
            pairs[level].append(Pair(first=name, baseline=blocks[BASELINE], treatment=blocks[level], launch=launch))
    return pairs


def _block(steps: np.ndarray) -> Block:
    n = len(steps)
    work = Work(samples=n, padded_tokens=None, useful_tokens=None, loss_tokens=None, cut_tokens=None)
    each = [float(s) for s in steps]
    return Block(steps=n, seconds=sum(each), phases={}, step_seconds=each, work=work)


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """Runs of every arm, all of one length, so many of each; the log of each run's seconds a step."""

    launch_seconds: float
    """Seconds of a run's launch."""
    seconds: float
    """Seconds of a run, beside its launch."""
    logs: np.ndarray
    """Shape (arms, most rounds); the first arm is the run as it is."""
    in_turn: bool
    """True if every round runs all arms; False if an arm's runs follow each other."""

    def judged(self, rounds: int) -> Outcome:
        """What the first `rounds` runs of each arm come to: rounds are paired, runs that follow each other are not."""
        base, arms = self.logs[0, :rounds], self.logs[1:, :rounds]
        mean = (base - arms).mean(axis=1)
        if self.in_turn:
            error, freedom = (base - arms).std(axis=1, ddof=1) / np.sqrt(rounds), np.full(len(arms), rounds - 1.0)
        else:  # Welch's test
            parts = np.array([base.var(ddof=1) + np.zeros(len(arms)), arms.var(axis=1, ddof=1)]) / rounds
            error, freedom = np.sqrt(parts.sum(axis=0)), (rounds - 1) * parts.sum(axis=0) ** 2 / (parts**2).sum(axis=0)
        p = 2 * special.stdtr(freedom, -np.abs(mean) / error)
        upper = mean - special.stdtrit(freedom, OVERALL_P / 2) * error
        known = [Estimate(mean=m, upper=u, p=q) for m, u, q in zip(mean, upper, p, strict=True)]
        seconds = len(self.logs) * rounds * (self.launch_seconds + self.seconds)
        return Outcome(seconds=seconds, verdicts=judged(known, OVERALL_P))


def repeated(
    machine: Machine | Recorded,
    rng: np.random.Generator,
    gains: Sequence[float],
    seconds: float,
    rounds: int,
    in_turn: bool,
    launch_seconds: float,
) -> Repeated:
    """Run every arm `rounds` times, each time launched anew."""
    clock, arms = Clock(machine, rng), [0.0, *gains]
    order = [(arm, k) for arm in range(len(arms)) for k in range(rounds)]
    if in_turn:
        order = [(int(arm), k) for k in range(rounds) for arm in rng.permutation(len(arms))]
    logs = np.empty((len(arms), rounds))
    for arm, k in order:
        pace = np.exp(clock.launch(launch_seconds)) / (1 + arms[arm])
        logs[arm, k] = np.log(clock.steps(round(seconds / STEP), pace).mean())
    return Repeated(launch_seconds=launch_seconds, seconds=seconds, logs=logs, in_turn=in_turn)


def judged(known: Sequence[Estimate], nominal: float) -> list[str]:
    """Verdicts by the kit's words, with Holm's correction of what is supported."""
    least, verdicts = np.log(1 + MINIMUM_EFFECT), [OPEN] * len(known)
    passed = True
    for rank, i in enumerate(sorted(range(len(known)), key=lambda i: known[i].p)):
        passed = passed and known[i].p * (len(known) - rank) <= nominal
        if passed and known[i].mean >= least:
            verdicts[i] = SUPPORTED
        elif known[i].upper < least:
            verdicts[i] = REFUTED
    return verdicts
