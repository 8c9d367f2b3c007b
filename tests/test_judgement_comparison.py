"""The comparison rule, on simulated blocks whose truth is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from simulated import around, block, compared, comparisons, pairs, step_times
from slowstep.judgement.comparison import (
    EQUAL,
    LOOKS,
    ComparisonResult,
    Reading,
    change,
    log_ratios,
    reading,
    result_of,
)
from slowstep.judgement.intervals import NOMINAL_P
from slowstep.records import Pair

COMPARISONS = 800
ALLOWANCE = 3 * math.sqrt(0.05 * 0.95 / COMPARISONS)
"""Three standard errors of a share of 5 % among that many comparisons."""

REGIMES = {
    "steady": {},
    "correlated steps": {"correlation": 0.9},
    "drift 5 %": {"drift": 0.05},
    "correlated and drift 10 %": {"correlation": 0.9, "drift": 0.10},
    "noisy with spikes": {"sd": 0.08, "spikes": 0.05},
    "single steps thirty times as long": {"heavy": 1 / 500},
}


def decided(ratios: np.ndarray, launches: list[int]) -> Reading:
    """The reading that measuring stops at: the first look that isn't inconclusive, or the last."""
    kinds = (reading(ratios[:n], launches[:n]) for n in LOOKS if n <= len(ratios))
    return next((kind for kind in kinds if kind is not Reading.INCONCLUSIVE), Reading.INCONCLUSIVE)


def all_decided(rng: np.random.Generator, times: np.ndarray, slowdown: float = 1.0) -> list[Reading]:
    """The readings of comparisons over so many step times."""
    ratios, launches = compared(rng, times, slowdown)
    return [decided(one, launches) for one in ratios]


def test_the_short_way_to_the_ratios_is_the_same() -> None:
    """Ratios from step times alone are those of pairs of whole blocks."""
    times = step_times(np.random.default_rng(0), 3, drift=0.05)
    ratios, launches = compared(np.random.default_rng(1), times[:1], slowdown=1.2)
    (pairs_of_blocks,) = comparisons(np.random.default_rng(1), times[:1], slowdown=1.2)

    assert log_ratios(pairs_of_blocks) == pytest.approx(ratios[0])
    assert [p.launch for p in pairs_of_blocks] == launches


def shares(found: list[Reading]) -> dict[Reading, float]:
    return {kind: found.count(kind) / len(found) for kind in Reading}


@pytest.mark.parametrize("regime", REGIMES)
def test_identical_arms_are_rarely_told_apart(regime: str) -> None:
    """With no true difference, at most 5 % of comparisons read faster or slower, over all looks together."""
    rng = np.random.default_rng(1)
    times = step_times(rng, COMPARISONS, **REGIMES[regime])

    share = shares(all_decided(rng, times))

    assert share[Reading.FASTER] + share[Reading.SLOWER] <= 0.05 + ALLOWANCE


@pytest.mark.parametrize("regime", ["steady", "correlated steps", "drift 5 %", "single steps thirty times as long"])
def test_a_tenth_is_found(regime: str) -> None:
    """A true gain of 10 % reads faster in nine of ten comparisons at least, and never slower or equal."""
    rng = np.random.default_rng(2)
    times = step_times(rng, 300, **REGIMES[regime])

    share = shares(all_decided(rng, times, slowdown=1 / 1.1))

    assert share[Reading.FASTER] > 0.9
    assert 0.0 == share[Reading.SLOWER] + share[Reading.EQUAL]


def test_intervals_hold_the_truth() -> None:
    """At a look, the interval misses the true ratio about as often as its nominal p says."""
    rng = np.random.default_rng(3)
    times = step_times(rng, COMPARISONS, correlation=0.9)

    effects = [change(c[:7]) for c in comparisons(rng, times, slowdown=1 / 1.1)]

    missed = sum(not e.low <= 1.1 <= e.high for e in effects)
    assert missed / COMPARISONS <= NOMINAL_P + 3 * math.sqrt(NOMINAL_P / COMPARISONS)


def stalled() -> list[ComparisonResult]:
    """Readings of twelve pairs whose treatment takes 80 % longer in every eighth step."""
    rng = np.random.default_rng(4)
    stall = np.where(np.arange(20) % 8 == 7, 1.8, 1.0)
    return [result_of(c) for c in comparisons(rng, step_times(rng, 100, sd=0.01, spikes=0.0), slowdown=stall)]


def test_a_periodic_stall_counts() -> None:
    """A stall in every eighth step is judged by what it costs, although the median step doesn't know it."""
    found = stalled()

    assert {Reading.SLOWER} == {r.reading for r in found}
    assert all(abs(math.log(r.median_ratio)) < EQUAL for r in found)


def test_a_periodic_stall_is_named() -> None:
    """A reader is told that totals and medians disagree when an arm stalls, and is not when none does."""
    rng = np.random.default_rng(5)
    quiet = [result_of(c) for c in comparisons(rng, step_times(rng, 100, sd=0.01, spikes=0.0))]

    assert (True, False) == (all(r.stall for r in stalled()), any(r.stall for r in quiet))


def test_a_bigger_step_that_takes_longer_is_no_slower() -> None:
    """Batch 96 in three times the time of batch 32 is practically equal: work is judged, not steps."""
    compared = [
        Pair(
            first="baseline",
            baseline=block([2.13 * j] * 5, samples=32),
            treatment=block([6.39] * 5, samples=96),
            launch=i,
        )
        for i, j in enumerate((0.995, 1.0, 1.005, 0.998, 1.002))
    ]

    assert Reading.EQUAL == result_of(compared).reading


def test_padding_is_no_work() -> None:
    """Positions that are only padding earn nothing: the same time with twice the positions is equal."""
    compared = [
        Pair(first="baseline", baseline=block([j] * 5), treatment=block([1.0] * 5, padding=100), launch=i)
        for i, j in enumerate((0.999, 1.0, 1.001, 0.9995, 1.0005))
    ]

    assert Reading.EQUAL == result_of(compared).reading


def test_a_launch_is_not_taken_for_the_arm() -> None:
    """What one launch has over another for its whole life is no reading: a clear 2 % needs several launches."""
    clear = pairs(around(0.02, noise=0.001, n=12))
    once = [replace(p, launch=0) for p in clear]

    assert (Reading.INCONCLUSIVE, True) == (result_of(once).reading, result_of(clear).effect.lower > 0)


def test_a_lost_block_does_not_hide_a_gain() -> None:
    """One pair in ten thirty times out of line leaves a true gain of 10 % to be seen, as the median of the pairs."""
    gains = [*around(0.1, noise=0.01, n=18), -0.6, 1.5]
    found = result_of(pairs(gains))

    assert (Reading.FASTER, True) == (found.reading, found.effect.median)
    assert found.effect.low < 1.1 < found.effect.high


def test_the_interval_and_its_p_agree() -> None:
    """A p below the nominal one is an interval without zero, for the mean's interval and for the median's."""
    rng = np.random.default_rng(6)
    found = [
        change(pairs(np.expm1(rng.normal(0.02, 0.02, n) * rng.choice([1, 20], n, p=[0.9, 0.1]))))
        for n in (5, 9, 30) * 40
    ]

    assert {True, False} == {e.median for e in found}
    assert [e.lower > 0 or e.upper < 0 for e in found] == [e.p < NOMINAL_P for e in found]


def test_noise_is_never_called_no_effect() -> None:
    """Pairs that scatter widely are inconclusive, with the smallest effect that they could have shown."""
    noisy = result_of(pairs(around(0.0, noise=0.24, n=12)))

    assert Reading.INCONCLUSIVE == noisy.reading
    assert noisy.detectable > 1.15


@pytest.mark.parametrize("n", [0, 1, 2])
def test_less_than_three_pairs_decide_nothing(n: int) -> None:
    """However clear they look, fewer than three pairs are inconclusive, and asking is no error."""
    assert Reading.INCONCLUSIVE == result_of(pairs([0.5] * n)).reading


def test_swapping_the_arms_turns_the_reading_round() -> None:
    """Which arm is called the baseline doesn't matter: faster becomes slower by the inverse ratio."""
    one = pairs(around(0.2))
    other = [Pair(first="baseline", baseline=p.treatment, treatment=p.baseline) for p in one]

    assert (Reading.FASTER, Reading.SLOWER) == (result_of(one).reading, result_of(other).reading)
    assert 1.0 == pytest.approx(result_of(one).effect.ratio * result_of(other).effect.ratio)
