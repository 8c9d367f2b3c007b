"""The size of a planted cause, measured without the kit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from bench.validation import bare
from slowstep.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The speed-up of the cure, measured without the kit; a ratio with its 95 % interval over three runs of each."""

    ratio: float
    low: float
    high: float


def truth(as_is: Settings, cured: Settings) -> Truth:
    """What the cure of a run brings."""
    gains = np.subtract(*(np.log(speeds) for speeds in reversed(bare.paces(as_is, cured))))
    half = float(stats.t.ppf(0.975, len(gains) - 1)) * float(gains.std(ddof=1)) / math.sqrt(len(gains))
    mean = float(gains.mean())
    return Truth(ratio=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half))
