"""Launches of one run that something else on the machine held up from their first step to their last.

They train on the same samples as the other launches, and their steps take longer. On two cores that others use as well,
a step of 2 ms may take 20, in which the optimizer's threads wait for a core and a loop in Python does not. Their shares
are those of another run, and a mean over all launches would be theirs, as their steps last longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from slowstep.records import Steps

HELD_UP = 1.5
"""How many times as long as those of the quickest launch the steps of one take in the median if it was held up. The
pace of a shared machine moves by a fifth from one minute to the next."""

FEWEST = 10
"""The fewest steps at places of the data that another launch has trained on, too, by which a launch is judged."""


def not_held_up(launches: Iterable[Steps]) -> list[Steps]:
    """Return the launches whose steps take about as long as those of the quickest one, step for step the same samples.

    The median step tells, so that a launch stays which met a long stall that others missed.
    """
    known = [steps for steps in launches if len(steps)]
    paces = _paces(known)
    quickest = min((pace for pace in paces if pace is not None), default=0.0)
    return [
        steps for steps, pace in zip(known, paces, strict=True) if pace is None or pace - quickest <= np.log(HELD_UP)
    ]


def _paces(launches: Sequence[Steps]) -> list[float | None]:
    """Return how much longer the steps of each launch take than the quickest ones of all at the same places.

    It is the median of log-ratios; None where too few places are shared.
    """
    quickest: dict[int, float] = {}
    seen: dict[int, int] = {}
    for steps in launches:
        for position, seconds in zip(steps.position, steps.seconds, strict=True):
            quickest[position] = min(seconds, quickest.get(position, seconds))
            seen[position] = seen.get(position, 0) + 1
    found: list[float | None] = []
    for steps in launches:
        both = [
            np.log(seconds / quickest[position])
            for position, seconds in zip(steps.position, steps.seconds, strict=True)
            if seen[position] > 1 and quickest[position] > 0
        ]
        found.append(float(np.median(both)) if len(both) >= FEWEST else None)
    return found
