"""The size of a planted cause, measured without the kit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

from scipy import stats

from bench.validation import bare
from slowstep.settings import Settings

LEAST, MOST = 3, 7
"""Pairs of runs."""

NARROW = math.log(1.1)
"""No more are trained when the interval reaches no further from the estimate than this, whatever it says."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The speed-up of the cure, measured without the kit; a ratio with its 95 % interval over pairs of runs."""

    ratio: float
    low: float
    high: float
    pairs: int


def truth(as_is: Settings, cured: Settings) -> Truth:
    """What the cure of a run brings."""
    gains: list[float] = []
    for before, after in bare.paces(as_is, cured):
        gains.append(math.log(after / before))
        n = len(gains)
        half = float(stats.t.ppf(0.975, n - 1) * stats.sem(gains)) if n >= LEAST else math.inf
        if half <= NARROW or n == MOST:
            break
    mean = fmean(gains)
    return Truth(ratio=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half), pairs=n)
