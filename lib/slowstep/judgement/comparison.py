"""The comparison rule: interleaved pairs, block totals, corrected looks.

A pair gives d = ln(treatment throughput / baseline throughput) over whole blocks. After 3, 5, 7, 9 and 12 pairs the
t-interval of the mean is looked at, each time at a nominal two-sided p of 0.0158, which makes 5 % over the five looks
(Pocock, Biometrika 64, 1977). The block is the sampling unit, never the step: steps are autocorrelated, and a test on
them calls a third of all identical arms different. Totals are judged, never medians: a median hides a stall in every
eighth step, which is a tenth of the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import stats

from slowstep.judgement.units import work
from slowstep.records import Block, Pair

LOOKS = (3, 5, 7, 9, 12)
NOMINAL_P = 0.0158
OVERALL_P = 0.05
EQUAL = math.log(1.03)
"""Two arms within 3 % are practically equal."""

STALL = 0.03
"""Total and median throughput that differ by more than this hold a stall worth a word."""


class Kind(StrEnum):
    """What a comparison reads."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUAL = "practically equal"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean with its t-interval and the two-sided p of "no difference", all on the natural-log scale."""

    mean: float
    half: float
    p: float
    n: int

    @property
    def ratio(self) -> float:
        """The effect as a throughput ratio."""
        return math.exp(self.mean)

    @property
    def low(self) -> float:
        """Lower end, as a ratio."""
        return math.exp(self.mean - self.half)

    @property
    def high(self) -> float:
        """Upper end, as a ratio."""
        return math.exp(self.mean + self.half)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A comparison's result, with the medians as a second opinion that is shown and not judged."""

    kind: Kind
    effect: Interval
    detectable: float
    """The smallest ratio above 1 that these pairs could have told from 1."""
    median_ratio: float
    stall: bool
    """Whether totals and medians disagree: something stalls now and then in one arm."""


def log_ratios(pairs: Sequence[Pair]) -> np.ndarray:
    """d of every pair, shape (n,)."""
    return np.array([math.log(_rate(p.treatment) / _rate(p.baseline)) for p in pairs])


def interval(values: Sequence[float] | np.ndarray, p: float = NOMINAL_P) -> Interval:
    """The t-interval at two-sided `p`; infinite for fewer than two values."""
    values = np.asarray(values, dtype=float)
    n = len(values)
    if n < 2:
        return Interval(mean=float(values.mean()) if n else 0.0, half=math.inf, p=1.0, n=n)
    error = float(values.std(ddof=1)) / math.sqrt(n)
    half = float(stats.t.ppf(1 - p / 2, n - 1)) * error
    mean = float(values.mean())
    if error == 0.0:
        return Interval(mean=mean, half=0.0, p=1.0 if mean == 0.0 else 0.0, n=n)
    return Interval(mean=mean, half=half, p=float(2 * stats.t.sf(abs(mean) / error, n - 1)), n=n)


def read(ratios: Sequence[float] | np.ndarray) -> Kind:
    """The reading of log-ratios at a look."""
    effect = interval(ratios)
    one_sided = interval(ratios, 2 * NOMINAL_P)
    if effect.n < LOOKS[0]:
        return Kind.INCONCLUSIVE
    if abs(one_sided.mean) + one_sided.half < EQUAL:
        return Kind.EQUAL
    if abs(effect.mean) > effect.half:
        return Kind.FASTER if effect.mean > 0 else Kind.SLOWER
    return Kind.INCONCLUSIVE


def reading(pairs: Sequence[Pair]) -> Reading:
    """The comparison of `pairs`."""
    d = log_ratios(pairs)
    medians = np.array([math.log(_median_rate(p.treatment) / _median_rate(p.baseline)) for p in pairs])
    gap = interval(d - medians) if len(pairs) else interval([])
    effect = interval(d)
    return Reading(
        kind=read(d),
        effect=effect,
        detectable=math.exp(effect.half),
        median_ratio=math.exp(float(medians.mean())) if len(pairs) else 1.0,
        stall=abs(gap.mean) > STALL and abs(gap.mean) > gap.half,
    )


def due(n: int, most: int) -> bool:
    """Whether `n` pairs are a look, `most` being the last whatever its number."""
    return n in LOOKS or n >= most


def _rate(block: Block) -> float:
    return work(block) / block.seconds


def _median_rate(block: Block) -> float:
    return work(block) / (block.steps * float(np.median(block.step_seconds)))
