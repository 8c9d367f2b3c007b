"""The steps of a launch, cut into stretches, and how far the later ones take longer beside what else runs then.

A machine drifts, but all that runs on it drifts together. So phases are judged by their time over that of the rest of
the same steps. The test asks of each two stretches of a launch which of them comes later and which takes longer. For a
trend it asks so of all of them, which is the test of Mann and Kendall; for an end of the first epoch, of those on
either side of it, which is that of Mann and Whitney. Both ask of the ranks alone, so no stall decides them, and both
are summed over launches as Hirsch and Slack do over seasons (Water Resources Research 18, 1982). The sampling unit is a
stretch of steps, since single steps are autocorrelated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from slowstep.records import Steps

STRETCHES = 10
"""The number of stretches that a launch's steps are cut into."""

FEWEST = 4
"""The fewest steps of a stretch. A launch with fewer than two such stretches tells nothing."""

NOTHING = 1e-12
"""Seconds that stand for none, where something is divided by them."""


@dataclass(frozen=True, eq=False)
class CutLaunch:
    """A launch, cut into n stretches of its steps, none of which lies on both sides of the first epoch's end."""

    phases: dict[str, np.ndarray]
    """Seconds a step in each phase, each of shape (n,)."""
    first_epoch: int
    """The number of stretches that lie in the first epoch."""
    steps: int
    """The steps of the launch that were timed."""
    span: int
    """The steps of training from its first to its last, those that were not timed included."""
    epoch: int
    """The steps of an epoch; 0 if that is not known."""

    @property
    def whole(self) -> np.ndarray:
        """Return the seconds of a step, shape (n,)."""
        return self.seconds(self.phases)

    def seconds(self, phases: Iterable[str]) -> np.ndarray:
        """Return the seconds a step in all of these phases, shape (n,)."""
        none = np.zeros_like(next(iter(self.phases.values())))
        return np.sum([self.phases.get(phase, none) for phase in phases] or [none], axis=0)


def cut_launch(steps: Steps, epoch: float) -> CutLaunch:
    """Return a launch, cut into stretches. `epoch` is the samples of an epoch, 0 where that is not known."""
    position = np.asarray(steps.position)
    end = int(np.searchsorted(position, epoch)) if epoch else 0
    parts = [part for part in (np.arange(end), np.arange(end, len(position))) if len(part) >= FEWEST]
    stretches = [each for part in parts for each in np.array_split(part, min(STRETCHES, len(part) // FEWEST))]
    apart = np.diff(position)
    usual = float(np.median(apart[apart > 0])) if (apart > 0).any() else 0.0
    return CutLaunch(
        phases={p: np.array([np.mean(row[e[0] : e[-1] + 1]) for e in stretches]) for p, row in steps.phases.items()},
        first_epoch=sum(each[-1] < end for each in stretches),
        steps=len(position),
        span=round((position[-1] - position[0]) / usual) + 1 if usual else len(position),
        epoch=round(epoch / usual) if usual else 0,
    )


@dataclass(frozen=True, eq=False)
class LaunchRatios:
    """A launch, cut into stretches, with the time of the judged phases and of those that they are compared with."""

    launch: CutLaunch
    own: np.ndarray
    """Seconds a step in the judged phases, shape (n,)."""
    rest: np.ndarray
    """Seconds a step in the phases that they are compared with, shape (n,)."""
    time: int = 0
    """The number of the time at which the launch trained."""

    def of_rest(self, seconds: np.ndarray) -> np.ndarray:
        """Return seconds as multiples of the rest, shape (n,)."""
        return seconds / np.maximum(self.rest, NOTHING)


def halves(one: LaunchRatios) -> list[LaunchRatios]:
    """Return the first half of a launch's stretches and the second."""
    own, rest = (np.array_split(each, 2) for each in (one.own, one.rest))
    return [replace(one, own=a, rest=b) for a, b in zip(own, rest, strict=True)]


def z_score(launches: Sequence[LaunchRatios], across: bool) -> float:
    """Return how far the later of two stretches takes longer, over all launches, in standard deviations of chance.

    All pairs of stretches of a launch are compared, or with `across` those on either side of the first epoch's end. A
    launch weighs as much as it has steps: in a short one nothing has come far.
    """
    total = variance = 0.0
    for one in launches:
        ratios, before = one.of_rest(one.own), one.launch.first_epoch
        signs, n = np.sign(ratios[None, :] - ratios[:, None]), len(ratios)
        total += one.launch.steps * (signs[:before, before:].sum() if across else np.triu(signs, 1).sum())
        scatter = before * (n - before) * (n + 1) / 3 if across else n * (n - 1) * (2 * n + 5) / 18
        variance += one.launch.steps**2 * scatter
    return total / math.sqrt(variance) if variance else 0.0


def two_sided_p(z: float) -> float:
    """Return the two-sided p of a z-score."""
    return float(2 * stats.norm.sf(abs(z)))


def changes_at_epoch_end(launches: Sequence[LaunchRatios]) -> bool:
    """Return whether phases change at the first epoch's end, and little on either side of it.

    By a steady growth they change there, too, but on one of the sides by two thirds of that at least.
    """
    at_end = before = after = 0.0
    for one in launches:
        first_epoch, later = np.split(one.of_rest(one.own), [one.launch.first_epoch])
        at_end += np.median(later) - np.median(first_epoch)
        before += np.subtract(*_thirds(first_epoch))
        after += np.subtract(*_thirds(later))
    return max(abs(before), abs(after)) < abs(at_end) / 2


def first_and_last(
    launches: Sequence[LaunchRatios], values: Sequence[np.ndarray], at_epoch: bool
) -> tuple[float, float]:
    """Return values of stretches in the first third and in the last, or in the first epoch and after it.

    It is the median over stretches, so that a single stall makes no course, and the mean over launches.
    """
    by_launch = [
        tuple(map(np.median, np.split(each, [one.launch.first_epoch]))) if at_epoch else _thirds(each)
        for one, each in zip(launches, values, strict=True)
    ]
    first, last = np.average(by_launch, axis=0, weights=[one.launch.steps for one in launches])
    return float(first), float(last)


def _thirds(values: np.ndarray) -> tuple[float, float]:
    """Return the medians of the first third and of the last."""
    third = max(1, len(values) // 3)
    return float(np.median(values[:third])), float(np.median(values[-third:]))
