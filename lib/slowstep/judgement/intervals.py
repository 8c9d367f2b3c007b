"""Intervals: of a mean, by Student's t, and of a change measured in pairs, which must bear more.

Pairs of blocks on a real machine bring three kinds of noise, and the interval of a change answers each:

- ordinary scatter, by Student's t on the mean of the pairs;
- now and then a step thirty times as long, which makes the mean worthless: from eight pairs on the sign test's
  interval of the median (exact, whatever the distribution) stands beside it, and the narrower of the two counts;
- an offset that a launch keeps for its whole life (memory layout, clocks), which no interleaving averages out: it is
  allowed for as a known variance, which shrinks as the pairs spread over launches.

The price of taking the narrower of two, and of looking several times, is in NOMINAL_P; `bench/validation/` holds the
calibration in simulation.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

NOMINAL_P = 0.011
"""Two-sided p at each of nine looks; together they keep 5 %."""

LAUNCH = 0.01
"""Standard deviation of a launch's own speed, on the logarithm, that is allowed for."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate with its interval and the two-sided p of "nothing there", on the natural-log scale where a ratio."""

    mean: float
    lower: float
    upper: float
    p: float
    n: int
    median: bool = False
    """Whether it is the median's interval, because single values lie far out."""

    @property
    def half(self) -> float:
        """Half the width."""
        return (self.upper - self.lower) / 2

    @property
    def ratio(self) -> float:
        """The effect as a throughput ratio."""
        return math.exp(self.mean)

    @property
    def low(self) -> float:
        """Lower end, as a ratio."""
        return math.exp(self.lower)

    @property
    def high(self) -> float:
        """Upper end, as a ratio."""
        return math.exp(self.upper)


Limits = tuple[float, float, float]
"""Estimate, lower end, upper end."""


def interval(values: Sequence[float] | np.ndarray, p: float = NOMINAL_P) -> Interval:
    """The t-interval of the mean at two-sided `p`; infinite for fewer than two values."""
    values = np.asarray(values, dtype=float)
    n = len(values)
    mean, lower, upper = _mean(values, p, 0.0) if n else (0.0, -math.inf, math.inf)
    error = _error(values) if n > 1 else math.inf
    chance = 1.0 if mean == 0.0 else float(2 * stats.t.sf(abs(mean) / error, n - 1)) if error else 0.0
    return Interval(mean=mean, lower=lower, upper=upper, p=chance if n > 1 else 1.0, n=n)


def paired(values: Sequence[float] | np.ndarray, launches: Sequence[Hashable] = (), p: float = NOMINAL_P) -> Interval:
    """The interval of a change, from log-ratios of pairs, each measured in the launches of that name."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return interval(values, p)
    spread = _spread(len(values), launches)
    median, (mean, lower, upper) = _narrower(values, p, spread)
    chance = _chance(_median if median else _mean, values, spread)
    return Interval(mean=mean, lower=lower, upper=upper, p=chance, n=len(values), median=median)


def one_launch(p: float = NOMINAL_P) -> float:
    """By how much, on the logarithm, a single launch may be faster or slower than launches are on the mean."""
    return _z(p) * LAUNCH


def limits(values: np.ndarray, launches: Sequence[Hashable], p: float) -> Limits:
    """`paired` without the p, which takes longest."""
    return _narrower(values, p, _spread(len(values), launches))[1]


def _narrower(values: np.ndarray, p: float, spread: float) -> tuple[bool, Limits]:
    by_mean, by_median = _mean(values, p, spread), _median(values, p, spread)
    median = by_median[2] - by_median[1] < by_mean[2] - by_mean[1]
    return median, by_median if median else by_mean


def _mean(values: np.ndarray, p: float, spread: float) -> Limits:
    """Student's t, with the launches' part added in quadrature, so that it is never narrower than without."""
    mean = float(values.mean())
    if len(values) < 2:
        return mean, -math.inf, math.inf
    half = math.hypot(_t(p, len(values) - 1) * _error(values), _z(p) * spread)
    return mean, mean - half, mean + half


def _median(values: np.ndarray, p: float, spread: float) -> Limits:
    """The interval between two order statistics that the sign test does not reject (Conover, Practical Nonparametric
    Statistics, section 3.2); infinite while there are too few values."""
    ordered, dropped = np.sort(values), _dropped(p, len(values))
    median = float(np.median(ordered))
    if dropped < 0:
        return median, -math.inf, math.inf
    below, above = median - float(ordered[dropped]), float(ordered[-1 - dropped]) - median
    return median, median - math.hypot(below, _z(p) * spread), median + math.hypot(above, _z(p) * spread)


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def _spread(n: int, launches: Sequence[Hashable]) -> float:
    """Standard deviation that the launches leave in the mean of `n` pairs: a pair's is that of two launches."""
    shares = [count / n for count in Counter(launches).values()] or [1.0]
    return LAUNCH * math.sqrt(2 * sum(share**2 for share in shares))


def _chance(limits_at: Callable[[np.ndarray, float, float], Limits], values: np.ndarray, spread: float) -> float:
    """The two-sided p at which the interval just reaches 0, by bisection."""

    def holds_zero(p: float) -> bool:
        _, lower, upper = limits_at(values, p, spread)
        return lower <= 0.0 <= upper

    if holds_zero(1.0):
        return 1.0
    least, most = -40.0, 0.0  # as a logarithm
    if not holds_zero(math.exp(least)):
        return 0.0
    for _ in range(40):
        middle = (least + most) / 2
        least, most = (middle, most) if holds_zero(math.exp(middle)) else (least, middle)
    return math.exp(most)


@functools.lru_cache(maxsize=4096)
def _t(p: float, freedom: int) -> float:
    return float(stats.t.ppf(1 - p / 2, freedom))


@functools.lru_cache(maxsize=4096)
def _z(p: float) -> float:
    return float(stats.norm.ppf(1 - p / 2))


@functools.lru_cache(maxsize=4096)
def _dropped(p: float, n: int) -> int:
    """How many values may lie beyond each end of the median's interval at two-sided `p`; -1: there is no interval."""
    return int(stats.binom.ppf(p / 2, n, 0.5)) - 1 if p < 1 else (n - 1) // 2
