"""The course of a run: whether its steps take longer or less time the further training has come.

A list that grows with each step makes every step longer than the one before. A cache that fills, or a compiler that
meets its last new shape, makes them shorter. Trials see the first steps only, so such a run has no one speed: what was
measured holds for its beginning.

A machine drifts, too, but all that runs on it drifts together. So a phase is judged by its time over that of the rest
of the same steps. The test is that of Mann and Kendall for a trend, with the sum over launches that Hirsch and Slack
take over seasons (Water Resources Research 18, 1982): it asks of the ranks alone, so no stall decides it. Its sampling
unit is a stretch of steps, since single steps are autocorrelated.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from slowstep.records import PHASES, ProfileRecord, Steps
from slowstep_probe.measured import WHERE_RANKS_WAIT

STRETCHES = 10
"""The number of stretches that a launch's steps are cut into."""

FEWEST = 4
"""The fewest steps of a stretch. A launch with fewer than two such stretches tells nothing."""

P = 0.005
"""The two-sided p of a trend. Ten phases are looked at, so it is about 5 % in all, before the size is asked for."""

LEAST = 0.1
"""The least relative change of a step's time that is told. No two phases drift quite alike, so phases of healthy runs
were seen to change by a twentieth."""

LONG = 0.8
"""The steps, as a part of those of the longest launch, from which on a launch tells how much has changed."""

OF_STEP = 0.25
"""The part of a phase's change by which the steps as a whole must have changed at least, whatever the machine does."""

OF_GROWTH = 0.5
"""The part of the growth that a line must take in late steps, beyond all that its phase took before, to be named."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """A phase whose time changes as training goes on. Times are in seconds a step, at one pace of the machine."""

    phase: str
    first: float
    """Its time in the first third of the steps that were watched."""
    last: float
    """Its time in the last third."""
    step: float
    """The time of a whole step in the first third."""
    steps: int
    """The steps of training from the first that was watched to the last."""
    where: str = ""
    """The line of code at which its time grows; empty if that is not known."""

    @property
    def change(self) -> float:
        """Return the ratio of a step's time in the last third to that in the first."""
        return 1 + (self.last - self.first) / self.step

    @property
    def grows(self) -> bool:
        """Return whether steps become longer."""
        return self.last > self.first

    @property
    def adds_a_step_in(self) -> int | None:
        """Return the steps of training in which a step grows by the time that it took at first; None if it does not.

        From the middle of the first third to that of the last are two thirds of the steps.
        """
        return round(self.step / (self.last - self.first) * self.steps * 2 / 3) if self.grows else None


def courses(launches: Iterable[Steps], least: float) -> list[Course]:
    """Return the phases that make steps longer or shorter as training goes on, the largest change first.

    `least` is the least relative change of a step's time that matters; one below `LEAST` is never told.
    """
    watched = [steps for steps in launches if len(steps) >= 2 * FEWEST]
    found: list[str] = []
    while open_ones := _open(watched, found, least):
        # where one phase grows, every other one falls beside it: the one that changes leaves the others steady
        found.append(min(open_ones, key=lambda one: _left_beside(one, watched, found, least)).phase)
    each = [_course(phase, watched, [other for other in found if other != phase]) for phase in found]
    return sorted((one for one in each if one), key=lambda one: -abs(one.last - one.first))


def _open(launches: Sequence[Steps], known: Collection[str], least: float) -> list[Course]:
    """Return the phases with a course that matters, beside those that are known to have one."""
    each = [_course(phase, launches, known) for phase in PHASES if phase not in known]
    return [one for one in each if one and abs(math.log(one.change)) >= math.log1p(max(least, LEAST))]


def _left_beside(one: Course, launches: Sequence[Steps], found: Sequence[str], least: float) -> tuple[int, float]:
    """Return how many phases have a course beside this one, and the smaller the larger its own change is."""
    return len(_open(launches, [one.phase, *found], least)), -abs(one.last - one.first)


def placed(one: Course, profile: ProfileRecord, together: bool = False) -> Course:
    """Return a phase that grows with the own line in which most of the growth must lie, by late steps' `profile`.

    Where ranks train `together`, a line at which they wait for each other says nothing.
    """
    there = [place for place in profile.places if place.phase == one.phase and place.own]
    most = max(there, key=lambda place: place.share, default=None)
    if not (one.grows and most and profile.start) or (together and one.phase in WHERE_RANKS_WAIT):
        return one
    beyond = most.share * (one.step + one.last - one.first) - one.first
    return replace(one, where=most.where) if beyond >= OF_GROWTH * (one.last - one.first) else one


def _course(phase: str, launches: Sequence[Steps], beside: Collection[str]) -> Course | None:
    """Return the course of a phase, told by the phases that are not `beside` it; None if it has no trend.

    A phase that is most of a step seems to grow if the little beside it falls. So the steps themselves have to change,
    too.
    """
    columns = [(steps, *_columns(steps, phase, beside)) for steps in launches]
    columns = [(steps, own, rest) for steps, own, rest in columns if rest.sum() > 0]
    if not any(own.any() for _, own, _ in columns):
        return None
    trend, p = _trend([(own, rest) for _, own, rest in columns])
    most = max(len(steps) for steps, _, _ in columns)
    long = [(np.asarray(steps.seconds), own, rest) for steps, own, rest in columns if len(steps) >= LONG * most]
    pace = sum(rest.sum() for _, _, rest in long) / sum(len(rest) for _, _, rest in long)
    first, last = _thirds([(own, rest) for _, own, rest in long], pace)
    step, _ = _thirds([(whole, rest) for whole, _, rest in long], pace)
    raw = _thirds([(whole, np.ones(len(whole))) for whole, _, _ in long], 1.0)
    if p > P or min(step, *raw) <= 0 or (last - first) * trend <= 0:
        return None
    found = Course(phase=phase, first=first, last=last, step=step, steps=max(map(_span, launches)))
    seen = math.log(raw[1] / raw[0]) / math.log(found.change) if found.change > 0 else 0.0
    return found if seen >= OF_STEP else None


def _columns(steps: Steps, phase: str, beside: Collection[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the seconds of each step in a phase, and in the phases that it is told by, each of shape (n,)."""
    own = np.asarray(steps.phases.get(phase) or np.zeros(len(steps)))
    rest = [np.asarray(column) for name, column in steps.phases.items() if name != phase and name not in beside]
    return own, np.sum(rest, axis=0) if rest else np.zeros(len(steps))


def _trend(launches: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """Return the direction of the trend in the ratio of two columns, over all launches, and its two-sided p."""
    total = variance = 0.0
    for own, rest in launches:
        ratios, weight = _ratios(own, rest), len(own)  # in a short launch nothing has come far
        n = len(ratios)
        total += weight * np.triu(np.sign(ratios[None, :] - ratios[:, None]), 1).sum()
        variance += weight**2 * n * (n - 1) * (2 * n + 5) / 18
    return total, float(2 * stats.norm.sf(abs(total) / math.sqrt(variance)))


def _thirds(launches: Sequence[tuple[np.ndarray, np.ndarray]], pace: float) -> tuple[float, float]:
    """Return the ratio of two columns, times `pace`, in the first third of the steps and in the last.

    It is the median over the stretches of a third, so that a single stall makes no course, and the mean over launches.
    """
    every = [_ratios(own, rest) for own, rest in launches]
    thirds = [max(1, len(ratios) // 3) for ratios in every]
    ends = [(np.median(r[:third]), np.median(r[-third:])) for r, third in zip(every, thirds, strict=True)]
    first, last = np.average(ends, axis=0, weights=[len(own) for own, _ in launches])
    return float(pace * first), float(pace * last)


def _ratios(own: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Return the ratio of two columns in each stretch of the steps."""
    stretches = min(STRETCHES, len(own) // FEWEST)
    parts = zip(np.array_split(own, stretches), np.array_split(rest, stretches), strict=True)
    return np.array([a.sum() / max(b.sum(), 1e-12) for a, b in parts])


def _span(steps: Steps) -> int:
    """Return the steps of training from the first to the last, those that were not timed included."""
    position = np.asarray(steps.position)
    apart = np.diff(position)
    return round((position[-1] - position[0]) / np.median(apart[apart > 0])) + 1 if (apart > 0).any() else len(steps)
