"""Intervals: that of a mean (Student's t), and that of a change measured in pairs.

Pairs of blocks on a real machine have three kinds of noise. The interval of a change answers each:

- **Ordinary scatter**: Student's t on the mean of the pairs.
- **Single steps thirty times as long**: one of them makes the mean worthless. So from eight pairs on, the sign test's
  interval of the median stands beside it, which is exact for any distribution. The narrower of the two counts.
- **An offset of a launch**: a launch keeps it for its whole life (memory layout, clocks), so interleaving can't average
  it out. It is allowed for as a variance, known beforehand or larger as launches show it, which shrinks as the pairs
  spread over launches. A launch alone can't show it: its pairs agree, whatever it is (`ONE_LAUNCH_MARGIN`).

`NOMINAL_P` makes up for taking the narrower of two intervals and for looking several times. `bench/validation/` holds
the calibration in simulation.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

NOMINAL_P = 0.011
"""Two-sided p at each of nine looks; it makes 5 % over all of them."""

LAUNCH_SD = 0.01
"""Standard deviation of the speed of launches, as a natural logarithm, that an interval allows for."""

ONE_LAUNCH_MARGIN = math.log(1.15)
"""The lower end of an interval, as a log-ratio, that pairs of one launch must reach to show a gain. Launches on shared
machines were seen to differ by 4 % (one standard deviation), those of both arms of a pair then by 5.7 %, and
`NOMINAL_P` allows for 2.5 of these."""

FIRST_LOOK = 3
"""The pairs of the first look."""

P_FACTOR_PER_PAIR = 0.25
"""The least factor by which one pair more lowers a p, from the first look on. Blocks may come at two speeds (clocks, or
a stall in one of two). A pair of equal arms then shows the same large gain with a chance of a quarter, and three in
a row agree by luck. Their p would outlast any correction for the number of comparisons."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate with its interval and the two-sided p of "no effect". Ratios are on the natural-log scale."""

    mean: float
    lower: float
    upper: float
    p: float
    n: int
    median: bool = False
    """True if this is the median's interval, because single values lie far out."""

    @property
    def half(self) -> float:
        """Return half the width."""
        return (self.upper - self.lower) / 2

    @property
    def ratio(self) -> float:
        """Return the effect as a throughput ratio."""
        return math.exp(self.mean)

    @property
    def low(self) -> float:
        """Return the lower end as a ratio."""
        return math.exp(self.lower)

    @property
    def high(self) -> float:
        """Return the upper end as a ratio."""
        return math.exp(self.upper)


Limits = tuple[float, float, float]
"""Estimate, lower end, upper end."""


def interval(values: Sequence[float] | np.ndarray, p: float = NOMINAL_P) -> Interval:
    """Return the t-interval of the mean of `values`, shape (n,), at two-sided `p`; infinite for fewer than two."""
    values = np.asarray(values, dtype=float)
    n = len(values)
    mean, lower, upper = _t_limits(values, p, 0.0) if n else (0.0, -math.inf, math.inf)
    error = _standard_error(values) if n > 1 else math.inf
    p_value = 1.0 if mean == 0.0 else float(2 * special.stdtr(n - 1, -abs(mean) / error)) if error else 0.0
    return Interval(mean=mean, lower=lower, upper=upper, p=p_value if n > 1 else 1.0, n=n)


def paired(values: Sequence[float] | np.ndarray, launches: Sequence[Hashable] = (), p: float = NOMINAL_P) -> Interval:
    """Return the interval of a change, from log-ratios of pairs, shape (n,); `launches` names the launch of each."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return interval(values, p)
    spread = _launch_sd_of_mean(values, launches)
    is_median, (mean, lower, upper) = _narrower(values, p, spread)
    p_value = max(_p_value(_sign_test_limits if is_median else _t_limits, values, spread), _smallest_p(len(values)))
    return Interval(mean=mean, lower=lower, upper=upper, p=p_value, n=len(values), median=is_median)


def predicted(effect: Interval, n: int, p: float = NOMINAL_P) -> tuple[float, float]:
    """Return what `n` pairs in all will show: the standard deviation of their mean, and half their interval at `p`.

    The mean is expected where it is now, give or take what the pairs so far leave open: predictive power with a flat
    prior (Spiegelhalter, Freedman and Blackburn, Controlled Clinical Trials 7, 1986). The part of the
    interval that launches make is taken to shrink like the rest.
    """
    standard_error = effect.half / _t(NOMINAL_P, effect.n - 1)
    sd = standard_error * math.sqrt(max(0.0, 1 - effect.n / n))
    return sd, _t(p, n - 1) * standard_error * math.sqrt(effect.n / n)


def expected_half_width(values: Sequence[float], launches: Sequence[Hashable], n: int, p: float) -> float:
    """Return half the interval that the mean of `n` pairs will have, if all further ones are of the last launch."""
    found = np.asarray(values, dtype=float)
    of_all = [*launches, *launches[-1:] * (n - len(found))]
    spread = _launch_sd(found, launches) * _offset_left(of_all)
    return math.hypot(_t(p, n - 1) * float(found.std(ddof=1)) / math.sqrt(n), _z(p) * spread)


def refuting_half_width(sd: float, n: int) -> float:
    """Return half the interval of the mean of `n` pairs of one launch whose log-ratios scatter by `sd`."""
    return math.hypot(_t(NOMINAL_P, n - 1) * sd / math.sqrt(n), _z(NOMINAL_P) * LAUNCH_SD * _offset_left(()))


def largest_launch_offset(values: Sequence[float], launches: Sequence[Hashable]) -> float:
    """Return how far a launch of equal arms lies from 0, as a log-ratio; 0 if scatter and `LAUNCH_SD` may make that."""
    found = [np.array([v for v, own in zip(values, launches, strict=True) if own == launch]) for launch in {*launches}]
    freedom = len(values) - len(found)
    if freedom < 1:
        return 0.0
    scatter = math.sqrt(sum(float(((each - each.mean()) ** 2).sum()) for each in found) / freedom)
    known, offset = _t(NOMINAL_P, freedom) * scatter, _z(NOMINAL_P) * LAUNCH_SD * _offset_left(())
    means = [(abs(float(each.mean())), math.hypot(known / math.sqrt(len(each)), offset)) for each in found]
    return max((mean for mean, allowed in means if mean > allowed), default=0.0)


def launches_weigh(values: Sequence[float], launches: Sequence[Hashable], share: float) -> bool:
    """Return whether the launches' part of an interval is wider than a `share` of what scatter alone makes of it.

    Where it is not, more pairs of the same launches narrow the interval as well, and take no launch.
    """
    found = np.asarray(values, dtype=float)
    if len(found) < 2:
        return True
    _, (_, lower, upper) = _narrower(found, NOMINAL_P, 0.0)
    return _z(NOMINAL_P) * _launch_sd_of_mean(found, launches) > share * (upper - lower) / 2


def limits(values: np.ndarray, launches: Sequence[Hashable], p: float) -> Limits:
    """Return what `paired` does, without its p, which takes longest to compute."""
    return _narrower(values, p, _launch_sd_of_mean(values, launches))[1]


def _narrower(values: np.ndarray, p: float, spread: float) -> tuple[bool, Limits]:
    """Return whether the interval of the median is the narrower one, and the narrower one."""
    by_mean, by_median = _t_limits(values, p, spread), _sign_test_limits(values, p, spread)
    is_median = by_median[2] - by_median[1] < by_mean[2] - by_mean[1]
    return is_median, by_median if is_median else by_mean


def _t_limits(values: np.ndarray, p: float, spread: float) -> Limits:
    """Return Student's t-interval. The launches' part is added in quadrature, so it never makes it narrower."""
    mean = float(values.mean())
    if len(values) < 2:
        return mean, -math.inf, math.inf
    half = math.hypot(_t(p, len(values) - 1) * _standard_error(values), _z(p) * spread)
    return mean, mean - half, mean + half


def _sign_test_limits(values: np.ndarray, p: float, spread: float) -> Limits:
    """Return the interval between two order statistics that the sign test does not reject; infinite for too few values.

    Conover, Practical Nonparametric Statistics, section 3.2.
    """
    ordered, dropped = np.sort(values), _values_beyond(p, len(values))
    median = float(np.median(ordered))
    if dropped < 0:
        return median, -math.inf, math.inf
    below, above = median - float(ordered[dropped]), float(ordered[-1 - dropped]) - median
    return median, median - math.hypot(below, _z(p) * spread), median + math.hypot(above, _z(p) * spread)


def _standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def _launch_sd_of_mean(values: np.ndarray, launches: Sequence[Hashable]) -> float:
    """Return the standard deviation that launches leave in the mean of log-ratios, shape (n,)."""
    return _launch_sd(values, launches) * _offset_left(launches)


def _offset_left(launches: Sequence[Hashable]) -> float:
    """Return the part of a launch's offset that is left in the mean of pairs, each made in two launches."""
    shares = [count / len(launches) for count in Counter(launches).values()] or [1.0]
    return math.sqrt(2 * sum(share**2 for share in shares))


def _launch_sd(values: np.ndarray, launches: Sequence[Hashable]) -> float:
    """Return the standard deviation of the speed of launches, as a log-ratio: as they show it, at least `LAUNCH_SD`.

    What the centres of launches differ by, less what scatter makes of that, is its estimate by moments. Medians are
    taken throughout, so that a single step thirty times as long makes no launch look slow. Where each pair has a launch
    of its own, scatter holds what launches differ by.
    """
    _, launch_of = np.unique(np.asarray(launches), return_inverse=True)
    n, count = len(values), int(launch_of.max()) + 1 if len(launch_of) else 0
    if count < 2 or count == n:
        return LAUNCH_SD
    centres = np.array([np.median(values[launch_of == launch]) for launch in range(count)])
    scatter = _robust_sd(values - centres[launch_of]) * math.sqrt(n / max(1, n - count))
    between = abs(centres[0] - centres[1]) / math.sqrt(2) if count == 2 else _robust_sd(centres - np.median(centres))
    variance = between**2 - scatter**2 * count / n
    return max(LAUNCH_SD, math.sqrt(max(0.0, variance) / 2))


def _robust_sd(deviations: np.ndarray) -> float:
    """Return the standard deviation of a normal distribution with the median absolute deviation of these."""
    return float(np.median(np.abs(deviations))) / float(special.ndtri(0.75))


def _smallest_p(n: int) -> float:
    """Return the p below which `n` pairs show nothing, however well they agree."""
    return NOMINAL_P * P_FACTOR_PER_PAIR ** (n - FIRST_LOOK)


def _p_value(limits_at: Callable[[np.ndarray, float, float], Limits], values: np.ndarray, spread: float) -> float:
    """Return the two-sided p at which the interval just reaches 0, by bisection."""

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


def _t(p: float, freedom: int) -> float:
    return -float(special.stdtrit(freedom, p / 2))


def _z(p: float) -> float:
    return -float(special.ndtri(p / 2))


def _values_beyond(p: float, n: int) -> int:
    """Return how many values may lie beyond each end of the median's interval at two-sided `p`; -1 without interval."""
    return int(np.searchsorted(_fair_coin_cdf(n), p / 2)) - 1 if p < 1 else (n - 1) // 2


@functools.lru_cache(maxsize=64)
def _fair_coin_cdf(n: int) -> np.ndarray:
    """Return the chance of at most k heads in `n` throws of a coin, shape (n + 1,)."""
    return special.bdtr(np.arange(n + 1), n, 0.5)
