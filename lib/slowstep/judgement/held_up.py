"""Launches of one run that something else on the machine held up from their first step to their last.

They train on the same samples as the other launches, and their steps take longer. On two cores that others use as well,
a step of 2 ms may take 20, in which the optimizer's threads wait for a core and a loop in Python does not. Their shares
are those of another run, and a mean over all launches would be theirs, as their steps last longest.

What trains tells it, and no wait: data that was read from a disk at first, and from memory later, is the run's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from slowstep.records import Steps
from slowstep_probe.measured import TRAINS

HELD_UP = 1.5
"""How many times as long as those of the quickest launch the steps of one take in the median if it was held up. The
pace of a shared machine moves by a fifth from one minute to the next."""

FEWEST = 10
"""The fewest steps at places of the data that another launch has trained on, too, by which a launch is judged."""


def not_held_up(launches: Iterable[Steps]) -> list[Steps]:
    """Return the launches that train about as fast as the quickest one, step for step on the same samples.

    The median step tells, so that a launch stays which met a long stall that others missed.
    """
    known = [steps for steps in launches if len(steps)]
    paces = _paces(known)
    quickest = min((pace for pace in paces if pace is not None), default=0.0)
    return [
        steps for steps, pace in zip(known, paces, strict=True) if pace is None or pace - quickest <= np.log(HELD_UP)
    ]


def _paces(launches: Sequence[Steps]) -> list[float | None]:
    """Return how much longer each launch trains on a step than the quickest one at the same place of the data.

    It is the median of log-ratios; None where too few places are shared.
    """
    each = [dict(zip(steps.position, _trained(steps), strict=True)) for steps in launches]
    seen = Counter(position for times in each for position in times)
    quickest: dict[int, float] = {}
    for times in each:
        quickest |= {at: min(seconds, quickest.get(at, seconds)) for at, seconds in times.items()}
    ratios = [
        [seconds / quickest[at] for at, seconds in times.items() if seen[at] > 1 and quickest[at] > 0] for times in each
    ]
    return [float(np.median(np.log(found))) if len(found) >= FEWEST else None for found in ratios]


def _trained(steps: Steps) -> Sequence[float]:
    """Return the seconds of each step in which it trains."""
    return np.sum([steps.phases.get(phase) or [0.0] * len(steps) for phase in TRAINS], axis=0).tolist()
