"""The order of the plan: which comparison comes next, where time is short."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slowstep.factors import Contrast, Factor, Level, Meaning
from slowstep.investigation.evidence import CEILING, Evidence
from slowstep.investigation.permission import permits
from slowstep.judgement.block_length import FIRST_BLOCK_SECONDS, prolonged
from slowstep.judgement.bounds import bound as bound_called
from slowstep.judgement.comparison import FEWEST_PAIRS
from slowstep.judgement.throughput import speed_up

RATIO_WITHOUT_BOUND = 1.2
"""The speed-up that a change without a bound is expected to bring at most, when the order is chosen."""

LARGEST_RATIO = 3.0
"""The largest bound that counts. Beyond it, bounds say how little is known rather than how much there is to gain."""

CONFIRMING_LAUNCHES = 2
"""The launches of a comparison whose gain is supported: a second one has to show what the first one did."""

EMULATED_BELOW_GFLOPS = 5.0
"""GFLOP/s of a core in products of matrices, below which it emulates an arithmetic. Single precision reaches several
times as much on any processor of this decade, and bf16 without instructions of its own a fraction of one."""

SEEN_BOUNDS = {"epoch_start": "epoch_starts_seen"}
"""The bound that says what was seen, by the name of the bound that says what may be."""

GUESSING_BOUNDS = {"data": "batches", "padding": "positions", "batch": "fixed"}
"""The bound that gives a guess, by the name of the bound that is None here."""


def most_promising_first(contrasts: Sequence[Contrast], evidence: Evidence) -> list[Contrast]:
    """Return contrasts in the order of measuring.

    The same training on other hardware comes first, since all nodes wait for the slowest one. Then comes what undoes
    something that the run has switched on beyond its need: it is cheap to find out, and it is what a look at the
    program would find. Then comes the largest bound for the seconds that its comparison may take.
    """
    return sorted(
        contrasts, key=lambda c: (not _elsewhere(c), not _undoes(c, evidence), -_gain_per_second(c, evidence))
    )


def _elsewhere(contrast: Contrast) -> bool:
    """Return whether a contrast trains the same on other hardware."""
    return any(f.elsewhere for f, _ in contrast.levels)


def _undoes(contrast: Contrast, evidence: Evidence) -> bool:
    """Return whether a change undoes what costs time and is seldom needed on the device that the run trains on.

    What changes something else as well is no cheap way to find that out. What was seen to cost less than is worth
    having waits for its turn.
    """
    worth_having = contrast.minimum_effect(evidence.settings.budget.minimum_effect)
    if any((_ratio_seen(f, evidence) or math.inf) - 1 < worth_having for f, _ in contrast.levels):
        return False
    return all(f.undoes or _undoes_on_cpu(f, level, evidence) for f, level in contrast.levels)


def _ratio_seen(factor: Factor, evidence: Evidence) -> float | None:
    """Return the speed-up if the share of the time were gone that a factor was seen to take; None if none is known."""
    seen = evidence.settings.run.values.get(factor.share_seen)
    return None if seen is None else speed_up(seen.value)


def _undoes_on_cpu(factor: Factor, level: Level, evidence: Evidence) -> bool:
    return evidence.device == "cpu" and level.value in factor.undoes_on_cpu


def _emulated(evidence: Evidence) -> bool:
    """Return whether the processor reaches so little in the run's arithmetic that its instructions must lack it."""
    peak = evidence.peak
    return (
        evidence.device == "cpu"
        and peak is not None
        and peak.tflops * 1e3 < EMULATED_BELOW_GFLOPS * evidence.machine.cores
    )


def _gain_per_second(contrast: Contrast, evidence: Evidence) -> float:
    """Return the logarithm of the most that a change may bring, for each second that its comparison may take.

    Where the minutes are counted, what the final configuration may not hold counts half. A diagnostic change, which no
    configuration holds, counts whole.
    """
    settings = evidence.settings
    useful = contrast.meaning is Meaning.DIAGNOSTIC or permits(settings.allow, contrast.meaning)
    kept = settings.budget.minutes is None or useful
    return math.log(_largest_ratio(contrast, evidence)) / most_seconds(contrast, evidence) * (1.0 if kept else 0.5)


def _largest_ratio(contrast: Contrast, evidence: Evidence) -> float:
    """Return the speed-up that a change is expected to bring at most."""
    bound = evidence.prior(contrast).bound
    seen = [_ratio_seen(factor, evidence) for factor, _ in contrast.levels]
    if bound is None and all(seen):
        return min(max(seen), LARGEST_RATIO)
    if bound is None and any(_undoes_on_cpu(*one, evidence) for one in contrast.levels) and _emulated(evidence):
        return LARGEST_RATIO
    factors = {factor for factor, _ in contrast.levels}
    name, facts, value = _single({f.bound for f in factors}), evidence.baseline.facts, contrast.levels[0][1].value
    bound = bound_called(SEEN_BOUNDS.get(name), facts, value, evidence.epoch_samples) or bound
    if bound is None:  # nothing refutes it; what was seen is the best guess
        guess = "data" if CEILING in factors else GUESSING_BOUNDS.get(name, name if contrast.held_constant else None)
        bound = bound_called(guess, facts, value, None)
        if bound and bound.ratio - 1 < contrast.least:
            return 1.0  # it will be refuted
    return min(max(bound.ratio, 1.0), LARGEST_RATIO) if bound else RATIO_WITHOUT_BOUND


def _single(names: set[str | None]) -> str | None:
    """Return the one name of a set; None if there are several."""
    return next(iter(names)) if len(names) == 1 else None


def most_seconds(contrast: Contrast, evidence: Evidence) -> float:
    """Return the seconds that a comparison takes at most: its pairs, and the launches of its trials."""
    budget = evidence.settings.budget
    needed = budget.launches if evidence.launches_weigh else CONFIRMING_LAUNCHES
    launches = max(1, min(needed, budget.launches, budget.max_pairs))
    return _seconds_of_comparison(budget.max_pairs, launches, contrast, evidence)


def least_seconds(contrast: Contrast, evidence: Evidence) -> float:
    """Return the seconds that a comparison takes at least, roughly: its fewest pairs, after one launch."""
    return _seconds_of_comparison(min(FEWEST_PAIRS, evidence.settings.budget.max_pairs), 1, contrast, evidence)


def _seconds_of_comparison(pairs: int, launches: int, contrast: Contrast, evidence: Evidence) -> float:
    budget = evidence.settings.budget
    launch = sum(s for part, s in evidence.noise.baseline.startup.items() if part != "base")  # built once for all
    own = sum(factor.startup_seconds for factor, _ in contrast.levels)
    known = evidence.block_length
    turn = known.turn_seconds if known else 0.0
    samples = [arm.settings.effective_batch_size for arm in (contrast.treatment, contrast.baseline)]
    times = max(1.0, samples[0] / max(1, samples[1]))
    block = _longest_block(budget.block_seconds or (known.seconds if known else FIRST_BLOCK_SECONDS), times, evidence)
    return 2 * pairs * (block + turn) + launches * (2 * launch + own)


def _longest_block(seconds: float, times: float, evidence: Evidence) -> float:
    """Return the seconds of a block that is asked to take `seconds`: it holds some steps, and meets a rare stall.

    The steps of one arm may have so many `times` the samples, which the other trains on as well.
    """
    facts, budget = evidence.baseline.facts, evidence.settings.budget
    step, rate = facts.throughput.seconds_per_step, facts.throughput.samples_per_second
    stalls = evidence.stall_samples / rate if rate else 0.0
    return max(seconds, budget.block_steps_min * step * times, min(stalls, prolonged(seconds, budget.minutes)))
