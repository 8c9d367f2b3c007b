"""The share of the time that a phase takes, with an interval that holds even where single steps take very long.

A run that waits 3 s in every 60th step spends a fifth of its time there, and thirty steps in a row may show none of it.
So the time of a phase is split, step by step:

- **Ordinary time** is averaged over stretches of consecutive steps, since neighbours are alike. Student's t gives its
  interval.
- **Time far beyond the ordinary** is counted like rare events, each with its own weight. The interval is that of a
  weighted sum of Poisson counts (Fay and Feuer, Statistics in Medicine 16, 1997). Its upper end allows for one more
  event of the largest weight. Here twice the largest weight is allowed for, since the longest stall of a run is rarely
  among those that were seen.
- **Long steps that come at one distance**, as those of an evaluation after every hundredth step, are no rare events.
  How often they come is known, and Student's t gives the interval of what one of them takes.

The intervals are added in quadrature, each end by itself (the MOVER of Zou and Donner, Statistics in Medicine 27,
2008). The constants were chosen in simulation; `bench/validation/shares.py` holds the coverage that they give.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy import special

from slowstep.judgement.intervals import Interval, Limits

P = 0.03
"""Two-sided p of each of the two intervals. It is below 5 % because the intervals are only approximate."""

FAR_OUT = 2.0
"""A step's time in a phase is far out if it exceeds the median by this factor, and also by as many robust standard
deviations."""

LONGEST_UNSEEN = 2.0
"""The longest stall that is allowed for, as a multiple of the longest seen."""

ALIKE_WITHIN = 2.0
"""The factor by which the largest long step may exceed others that come at one distance with it."""

ONE_DISTANCE_BY_CHANCE = 0.005
"""The chance that long steps which come at random have one distance, beyond which they are not taken for regular."""

STRETCH = 12
"""The least number of steps in a stretch, where there are enough steps."""

STRETCHES = (4, 20)
"""The least and the largest number of stretches."""


def with_event(steps: Interval, alone: Interval) -> Interval:
    """Return the share of the time that a phase takes in the steps, and in an event that was timed beside them."""
    ends = {end: 1 - (1 - getattr(steps, end)) * (1 - getattr(alone, end)) for end in ("mean", "lower", "upper")}
    return replace(steps, **ends)


def share(phase: np.ndarray, whole: np.ndarray, position: np.ndarray | None = None) -> Interval:
    """Return the share of `phase` in the `whole`, both in seconds a step, in the order of training, shape (n,).

    `position` are the samples trained on when each step began; without them no step is missing in between.
    For fewer than four steps the interval is nearly as wide as can be, from 0 to 1.
    """
    n, rest = len(phase), whole - phase
    if not n or rest.sum() <= 0:
        mean = 1.0 if n and whole.sum() > 0 else 0.0
        return Interval(mean=mean, lower=0.0, upper=1.0, p=1.0, n=n)
    ordinary = np.minimum(phase, _far_out_limit(phase))
    odds, half = _ordinary_odds(ordinary, rest)
    parts = [(odds, odds - half, odds + half), *_sums_of_stalls((phase - ordinary) / rest.sum(), position)]
    mean = sum(each for each, _, _ in parts)
    lower = mean - math.hypot(*(each - low for each, low, _ in parts))
    upper = mean + math.hypot(*(high - each for each, _, high in parts))
    mean, lower, upper = map(_share_from_odds, (mean, lower, upper))
    return Interval(mean=mean, lower=lower, upper=upper, p=1.0, n=n)


def difference(phase: np.ndarray, other: np.ndarray, whole: np.ndarray) -> Interval:
    """Return the share of the `whole` that `phase` takes beyond `other`, all in seconds a step, shape (n,)."""
    n = len(whole)
    if n < 4 or whole.sum() <= 0:
        return Interval(mean=0.0, lower=-1.0, upper=1.0, p=1.0, n=n)
    mean, half = _ordinary_odds(phase - other, whole)
    return Interval(mean=mean, lower=mean - half, upper=mean + half, p=1.0, n=n)


def together(one: Interval, other: Interval) -> Interval:
    """Return the share of two parts of the time together. What makes one of them uncertain may make both so."""
    return Interval(
        mean=min(one.mean + other.mean, 1.0),
        lower=min(one.lower + other.lower, 1.0),
        upper=min(one.upper + other.upper, 1.0),
        p=1.0,
        n=min(one.n, other.n),
    )


def long_steps(phase: np.ndarray) -> np.ndarray:
    """Return the seconds of each step that lie far beyond the ordinary, shape (n,); 0 for most steps."""
    return phase - np.minimum(phase, _far_out_limit(phase))


def _far_out_limit(phase: np.ndarray) -> float:
    median = float(np.median(phase))
    deviation = 1.4826 * float(np.median(np.abs(phase - median)))  # the standard deviation, if it were a normal
    return max(FAR_OUT * median, median + FAR_OUT * deviation)


def _ordinary_odds(phase: np.ndarray, rest: np.ndarray) -> tuple[float, float]:
    """Return the mean odds of the phase against the rest, and half the width of their interval."""
    odds, n = float(phase.sum() / rest.sum()), len(phase)
    stretches = min(max(STRETCHES[0], min(n // STRETCH, STRETCHES[1])), n // 2)
    if stretches < 2:
        return odds, math.inf
    begins = np.linspace(0, n, stretches + 1).astype(int)[:-1]
    beside = np.add.reduceat(phase, begins) - odds * np.add.reduceat(rest, begins)
    error = float(beside.std(ddof=1)) * math.sqrt(stretches) / float(rest.sum())
    return odds, float(special.stdtrit(stretches - 1, 1 - P / 2)) * error


def _sums_of_stalls(excess: np.ndarray, position: np.ndarray | None) -> list[Limits]:
    """Return the sum of what lies far out, shape (n,), with both ends of its interval: of regular steps, and of others.

    Consecutive steps that lie far out are one stall.
    """
    hit = excess > 0
    begins = np.flatnonzero(hit & ~np.concatenate([[False], hit[:-1]]))
    if not len(begins):
        return []
    weights = np.add.reduceat(excess, begins)
    large = weights >= weights.max() / ALIKE_WITHIN
    distance = next(
        (d for at in _step_positions(len(excess), position) if (d := _common_distance(at[begins[large]], at))), 0.0
    )
    if not distance:
        return [_sum_of_random_stalls(weights)]
    return [_sum_of_regular_stalls(weights[large], len(excess) / distance), _sum_of_random_stalls(weights[~large])]


def _step_positions(n: int, position: np.ndarray | None) -> Iterator[np.ndarray]:
    """Yield what n steps are counted by: their positions in samples, and their numbers if none is missing."""
    if position is not None:
        yield position
    if position is None or n < 2 or (apart := np.diff(position)).max() < 2 * np.median(apart):
        yield np.arange(n)


def _common_distance(stalls: np.ndarray, steps: np.ndarray) -> float:
    """Return the distance at which all stalls come, in steps; 0 if they have several, or by chance one.

    Both are positions, in order. A stall that would have come in a step that was not timed is not missed.
    """
    distances = np.diff(stalls)
    if len(distances) < 2 or (distances % distances.min()).any():
        return 0.0
    distance = int(distances.min())
    first = steps[0] + (stalls[0] - steps[0]) % distance
    expected = np.arange(first, steps[-1] + 1, distance)
    if (np.isin(expected, steps) & ~np.isin(expected, stalls)).any():
        return 0.0
    apart = distance / float(np.median(np.diff(steps)))
    return apart if apart ** (1 - len(distances)) <= ONE_DISTANCE_BY_CHANCE else 0.0


def _sum_of_regular_stalls(weights: np.ndarray, number: float) -> Limits:
    """Return the sum of events of these weights, and both ends of the interval of the sum of so large a `number`.

    The number of events is not that of the weights where the steps are no multiple of their distance.
    """
    total, mean, half = float(weights.sum()), float(weights.mean()), _half_width(weights)
    if len(weights) >= 2 * STRETCHES[0]:  # neighbours may be alike
        half = max(half, _half_width(np.array([part.mean() for part in np.array_split(weights, STRETCHES[0])])))
    return total, min(total, number * (mean - half)), max(total, number * (mean + half))


def _half_width(values: np.ndarray) -> float:
    """Return half the width of the interval of a mean."""
    return float(special.stdtrit(len(values) - 1, 1 - P / 2) * values.std(ddof=1) / math.sqrt(len(values)))


def _sum_of_random_stalls(weights: np.ndarray) -> Limits:
    """Return the sum of events of these weights, and both ends of the interval of its mean."""
    if not len(weights):
        return 0.0, 0.0, 0.0
    total, square, longest = float(weights.sum()), float((weights**2).sum()), LONGEST_UNSEEN * float(weights.max())
    low = square / total * float(special.gammaincinv(total**2 / square, P / 2))
    more, wider = total + longest, square + longest**2
    high = wider / more * float(special.gammaincinv(more**2 / wider, 1 - P / 2))
    return total, low, high


def _share_from_odds(odds: float) -> float:
    """Return a share, 0 to 1, from its odds against the rest."""
    return 1.0 if math.isinf(odds) and odds > 0 else max(odds, 0.0) / (1 + max(odds, 0.0))
