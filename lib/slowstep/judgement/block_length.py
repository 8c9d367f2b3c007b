"""The length of a block that tells the most for its time.

The log-ratio d of a pair of blocks, each b seconds long, has the variance a + s / b. `a` is what differs from one turn
to the next, however long blocks are: the machine drifts. s / b is the noise of single steps, which a longer block
averages out. A pair takes 2 (b + c) seconds, where a turn costs c: steps that are discarded, and catching up. After T
seconds of pairs the variance of the mean is 2 (a + s / b) (b + c) / T, which is smallest at b = sqrt(s c / a).

That is the best length where many pairs are needed. On a quiet machine the first looks decide, and what a long block
tells beyond that is not asked for. So the length is shortened to that with which a level without a gain is refuted in
the least time, n pairs at the first look n whose interval is narrow enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slowstep.judgement.comparison import FEWEST_PAIRS, LOOKS
from slowstep.judgement.intervals import refuting_half_width
from slowstep.records import Pair

FIRST_BLOCK_SECONDS = 1.0
"""Seconds of a block while nothing is known of the noise."""

LONG_BLOCKS = 10
"""A block that waits for a rare stall takes at most this many times its usual seconds, or this many times
`FIRST_BLOCK_SECONDS` if that is more."""

PART_OF_MINUTES = 1 / 30
"""A block is prolonged to at most this part of an investigation's minutes: three pairs then take a fifth of them."""

SHORTEST_SECONDS, LONGEST_SECONDS = 0.25, 4.0
"""Seconds between which the length of a block is chosen. Where a turn costs more than that, a block may last as long as
a turn."""

LEAST_DRIFT = 0.25
"""The least share of the variance of d that is taken for drift: a few pairs may agree by luck."""

PART_TO_REFUTE = 0.9
"""The part of the minimum effect that half an interval must not exceed to refute: the mean is seldom exactly 0."""

CANDIDATES = 24
"""The number of lengths that are tried, each a little longer than the one before."""


@dataclass(frozen=True, kw_only=True)
class BlockLength:
    """The length of blocks, and what it follows from."""

    seconds: float
    drift: float
    """The standard deviation of d that no length of a block averages out, as a log-ratio."""
    step_noise: float
    """The standard deviation of d for blocks of one step, without drift, as a log-ratio."""
    turn_seconds: float
    """The seconds that a turn costs beside its block."""


def prolonged(seconds: float, minutes: float | None) -> float:
    """Return the most seconds of a block that waits for a rare stall, where it would take `seconds` without that.

    `minutes` are those of the whole investigation, None if they are not limited.
    """
    most = LONG_BLOCKS * max(seconds, FIRST_BLOCK_SECONDS)
    return most if minutes is None else min(most, max(seconds, 60 * minutes * PART_OF_MINUTES))


def block_length(
    pairs: Sequence[Pair], turn_seconds: float, minimum_effect: float | None = None, steps_min: int = 1
) -> BlockLength | None:
    """Return the length of blocks that follows from the pairs of an A/A comparison; None if they are too few.

    Both blocks of such a pair hold the same work, so each step of one is compared with the same step of the other. But
    for noise, d is 0. Blocks have `steps_min` steps at least. Without a `minimum_effect`, many pairs are expected.
    """
    alike = [p for p in pairs if p.baseline.steps == p.treatment.steps >= 2]
    if len(alike) < FEWEST_PAIRS:
        return None
    steps = min(p.baseline.steps for p in alike)
    sides = [np.array([getattr(p, side).step_seconds[:steps] for p in alike]) for side in ("baseline", "treatment")]
    mean = float(np.mean(sides))
    apart = (sides[1] - sides[0]) / mean  # shape (pairs, steps); small ratios are about log-ratios
    single, whole = float((apart**2).mean()), float((apart.mean(axis=1) ** 2).mean())
    noise = max(0.0, (single - whole) * steps / (steps - 1))
    drift = max(single - noise, LEAST_DRIFT * whole)
    if not drift or not noise:
        return None
    best = min(
        max(math.sqrt(noise * mean * turn_seconds / drift), SHORTEST_SECONDS), max(LONGEST_SECONDS, turn_seconds)
    )

    def refuting_seconds(seconds: float) -> float:
        """Return the seconds in which blocks of this length refute a level without a gain."""
        held = max(steps_min, seconds / mean)
        refuting = _refuting_pairs(math.sqrt(drift + noise / held), minimum_effect)
        return refuting * (held * mean + turn_seconds)

    if minimum_effect is not None:
        best = min(
            np.geomspace(best, SHORTEST_SECONDS, CANDIDATES), key=refuting_seconds
        )  # of equal prices the longest
    return BlockLength(
        seconds=float(best),
        drift=math.sqrt(drift),
        step_noise=math.sqrt(noise),
        turn_seconds=turn_seconds,
    )


def _refuting_pairs(sd: float, minimum_effect: float) -> float:
    """Return the pairs after which a level without a gain is refuted, where they scatter by `sd`; infinite if none."""
    half = PART_TO_REFUTE * math.log(1 + minimum_effect)
    return next((n for n in LOOKS if refuting_half_width(sd, n) <= half), math.inf)
