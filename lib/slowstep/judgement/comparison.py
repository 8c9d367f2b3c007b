"""The comparison rule: interleaved pairs, block totals, corrected looks.

A pair gives d = ln(treatment throughput / baseline throughput) over whole blocks. The interval of d is looked at
several times (`slowstep.judgement.intervals`), each time at the nominal p that makes 5 % over all looks. The idea is
Pocock's (Biometrika 64, 1977); the number is calibrated in simulation.

The block is the sampling unit, never the step. Steps are autocorrelated, and a test on them calls a third of all
identical arms different. Totals are judged, never medians of steps. A median hides a stall of +80 % in every eighth
step, which costs a tenth of the time.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from slowstep.judgement.intervals import (
    FIRST_LOOK,
    NOMINAL_P,
    Interval,
    interval,
    largest_launch_offset,
    limits,
    paired,
)
from slowstep.judgement.throughput import sides, works
from slowstep.records import ComparisonRecord, Pair

LOOKS = (FIRST_LOOK, 5, 7, 9, 12, 16, 20, 24, 30)
"""The looks: numbers of pairs after which the comparison may be decided."""

FEWEST_PAIRS = LOOKS[0]
"""The fewest pairs that are judged. A comparison that its deadline ends has so many."""

OVERALL_P = 0.05
"""Two-sided p over all looks."""

EQUAL = math.log(1.03)
"""Two arms within 3 % are practically equal."""

STALL = 0.03
"""The difference of total and median throughput, as a log-ratio, from which on a stall is reported."""


class Reading(StrEnum):
    """The possible results of a comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUAL = "practically equal"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, kw_only=True)
class ComparisonResult:
    """A comparison's result. The medians are a second opinion, which is shown and not judged."""

    reading: Reading
    effect: Interval
    detectable: float
    """The smallest ratio above 1 that these pairs could have told from 1."""
    median_ratio: float
    total_ratio: float
    """All work over all time of the treatment, divided by the same of the baseline."""
    stall: bool
    """True if totals and medians disagree: something stalls now and then in one arm."""


def log_ratios(pairs: Sequence[Pair]) -> np.ndarray:
    """Return d of every pair, shape (n,)."""
    before, after = _work(pairs) / _seconds(pairs)
    return np.log(after / before)


def launches_of(pairs: Sequence[Pair]) -> list[int]:
    """Return the launch of every pair."""
    return [p.launch for p in pairs]


def change(pairs: Sequence[Pair]) -> Interval:
    """Return the effect of the treatment, as a log-ratio with its interval."""
    return paired(log_ratios(pairs), launches_of(pairs))


def change_by_samples(pairs: Sequence[Pair]) -> Interval:
    """Return the effect of the treatment on samples a second, as a log-ratio with its interval."""
    samples = np.array([[block.work.samples for block in side] for side in sides(pairs)], dtype=float)
    before, after = samples / _seconds(pairs)
    return paired(np.log(after / before), launches_of(pairs))


def aa_offset(noise: ComparisonRecord | None) -> float:
    """Return how far the equal arms of the A/A comparison lie apart, in all or in a launch, as a log-ratio.

    It is 0 if chance may have made that. If not, launches of this run differ by more than an interval allows for
    (`intervals.LAUNCH_SD`).
    """
    if noise is None or len(noise.pairs) < FEWEST_PAIRS:
        return 0.0
    ratios, launches = log_ratios(noise.pairs), launches_of(noise.pairs)
    effect = paired(ratios, launches)
    whole = 0.0 if effect.lower <= 0 <= effect.upper else abs(effect.mean)
    return max(whole, largest_launch_offset(ratios, launches))


def reading(ratios: Sequence[float] | np.ndarray, launches: Sequence[Hashable]) -> Reading:
    """Return the result that log-ratios, shape (n,), give at one look; `launches` names the launch of each."""
    ratios = np.asarray(ratios, dtype=float)
    if len(ratios) < FEWEST_PAIRS:
        return Reading.INCONCLUSIVE
    _, lower, upper = limits(ratios, launches, 2 * NOMINAL_P)
    if lower > -EQUAL and upper < EQUAL:
        return Reading.EQUAL
    _, lower, upper = limits(ratios, launches, NOMINAL_P)
    return Reading.FASTER if lower > 0 else Reading.SLOWER if upper < 0 else Reading.INCONCLUSIVE


def result_of(pairs: Sequence[Pair]) -> ComparisonResult:
    """Return the result of comparing `pairs`."""
    d = log_ratios(pairs)
    before, after = _work(pairs) / _median_seconds(pairs)
    medians = np.log(after / before)
    whole_before, whole_after = _work(pairs).sum(axis=1) / _seconds(pairs).sum(axis=1) if len(pairs) else (1.0, 1.0)
    gap = interval(d - medians)
    effect = paired(d, launches_of(pairs))
    return ComparisonResult(
        reading=reading(d, launches_of(pairs)),
        effect=effect,
        detectable=math.exp(effect.half),
        median_ratio=math.exp(float(medians.mean())) if len(pairs) else 1.0,
        total_ratio=float(whole_after / whole_before),
        stall=abs(gap.mean) > STALL and abs(gap.mean) > gap.half,
    )


def _work(pairs: Sequence[Pair]) -> np.ndarray:
    """Return the work of both blocks of each pair, shape (2, n)."""
    return np.array(works(*sides(pairs)))


def _seconds(pairs: Sequence[Pair]) -> np.ndarray:
    return np.array([[block.seconds for block in side] for side in sides(pairs)])


def _median_seconds(pairs: Sequence[Pair]) -> np.ndarray:
    """Return the seconds of blocks of median steps. A periodic event is no stall: blocks bear equal shares."""
    return np.array(
        [
            [b.steps * float(np.median(b.step_seconds)) + sum(b.amortised.values()) for b in side]
            for side in sides(pairs)
        ]
    )
