"""The course of a run: whether its steps take longer or less time the further training has come.

A list that grows with each step makes every step longer than the one before. A compiler that meets its last new shape
makes them shorter, and so does, all at once, a cache that is full when the first epoch ends. Trials see the first steps
only, so such a run has no one speed: what was measured holds for its beginning.

A machine drifts, too, but all that runs on it drifts together. So a phase is judged by its time over that of the rest
of the same steps, as `stretches` says.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slowstep.judgement.stretches import (
    FEWEST,
    CutLaunch,
    LaunchRatios,
    changes_at_epoch_end,
    cut_launch,
    first_and_last,
    halves,
    two_sided_p,
    z_score,
)
from slowstep.records import PHASES, ProfileRecord, Steps
from slowstep_probe.measured import WHERE_RANKS_WAIT

P_COURSE = 0.005
"""The two-sided p of a course. Ten phases are looked at by two tests, so it is about 10 % in all, before the size is
asked for."""

P_ONCE = 0.1
"""The two-sided p by which one launch, or one half of it, shows a course by itself."""

LEAST_CHANGE = 0.1
"""The least relative change of a step's time that is told. No two phases drift quite alike, so phases of healthy runs
were seen to change by a twentieth."""

PHASES_TOGETHER = (*((phase,) for phase in PHASES), ("forward", "backward"))
"""The phases that may change together. What makes a model larger while it trains lengthens both of its passes alike, so
that neither changes beside the other."""

LONG_LAUNCH = 0.8
"""The steps, as a part of those of the longest launch, from which on a launch tells how much has changed."""

STEP_CHANGE_PART = 0.25
"""The part of a phase's change by which the steps as a whole must have changed at least, whatever the machine does."""

NAMED_GROWTH_PART = 0.5
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
    epoch: int = 0
    """The steps of the first epoch, if the change comes all at once with its end: `first` is its time in that epoch
    then, and `last` that after it."""
    beyond_epoch: int = 0
    """The steps of an epoch, if those that were watched go beyond one: trials let an epoch go on without end."""
    where: str = ""
    """The line of code at which its time grows; empty if that is not known."""
    once: bool = False
    """True if it was seen at one time alone: what else the machine did then may have made it."""

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
        if self.epoch or not self.grows:
            return None
        return round(self.step / (self.last - self.first) * self.steps * 2 / 3)


def courses(
    launches: Sequence[Steps], least: float, epoch: float = 0.0, times: Sequence[int] | None = None
) -> list[Course]:
    """Return the phases that make steps longer or shorter as training goes on, the largest change first.

    `least` is the least relative change of a step's time that matters; one below `LEAST_CHANGE` is never told.
    `epoch` is the samples of an epoch, 0 where that is not known. Launches that trained beside each other have the same
    one of `times`; without it, none did.
    """
    known = zip(launches, range(len(launches)) if times is None else times, strict=True)
    watched = [(cut_launch(steps, epoch), time) for steps, time in known if steps.phases and len(steps) >= 2 * FEWEST]
    search = _Search([one for one, _ in watched], [time for _, time in watched], math.log1p(max(least, LEAST_CHANGE)))
    found: list[str] = []
    while open_ones := search.open(found):
        # where one phase grows, every other one falls beside it: the one that changes leaves the others steady
        found += min(open_ones, key=lambda phases: search.left_beside(phases, open_ones[phases], found))
    each = [search.course([phase], beside=[other for other in found if other != phase]) for phase in found]
    # of two phases that change together, each may make half of the change
    return sorted((one for one in each if one and _size(one) >= search.least / 2), key=_size, reverse=True)


def _size(one: Course) -> float:
    return abs(math.log(one.change))


@dataclass(frozen=True)
class _Search:
    """The search for what phases change."""

    launches: Sequence[CutLaunch]
    times: Sequence[int]
    """The time at which each launch trained, as a number."""
    least: float
    """The least change of a step's time that is told, as a difference of logarithms."""

    def open(self, known: Collection[str]) -> dict[tuple[str, ...], Course]:
        """Return what phases have a course that matters, alone or together, beside those that are known to have one."""
        each = {phases: self.course(phases, known) for phases in PHASES_TOGETHER if not set(phases) & set(known)}
        # each of several has to make what one must: the little that is left beside them tells the pace less well
        return {phases: one for phases, one in each.items() if one and _size(one) >= len(phases) * self.least}

    def left_beside(self, phases: tuple[str, ...], one: Course, found: Sequence[str]) -> tuple[int, int, float]:
        """Return how many courses are left beside that of `phases`, how many these are, and its size, negative."""
        return len(self.open([*phases, *found])), len(phases), -_size(one)

    def course(self, phases: Collection[str], beside: Collection[str]) -> Course | None:
        """Return the course of phases by the time of those that are not `beside` them; None if they have none.

        A phase that is most of a step seems to grow if the little beside it falls. So the steps themselves have to
        change, too.
        """
        others = [phase for phase in PHASES if phase not in phases and phase not in beside]
        launches = zip(self.launches, self.times, strict=True)
        seen = [LaunchRatios(one, one.seconds(phases), one.seconds(others), time) for one, time in launches]
        seen = [one for one in seen if one.rest.any()]
        if not any(one.own.any() for one in seen):
            return None
        over = [one for one in seen if 0 < one.launch.first_epoch < len(one.own)]
        at_epoch = two_sided_p(z_at_epoch := z_score(over, across=True)) <= P_COURSE and changes_at_epoch_end(over)
        z = z_at_epoch if at_epoch else z_score(seen, across=False)
        if two_sided_p(z) > P_COURSE:
            return None
        return self._sized(phases, over if at_epoch else seen, at_epoch, z)

    def _sized(
        self, phases: Collection[str], watched: Sequence[LaunchRatios], at_epoch: bool, z: float
    ) -> Course | None:
        """Return a course that launches show with its size; None if the steps as a whole do not change with it.

        `z` is the z-score of the change, which comes all at once with the end of the first epoch if it is `at_epoch`.
        """
        long = [one for one in watched if one.launch.steps >= LONG_LAUNCH * max(one.launch.steps for one in watched)]
        pace = float(np.mean(np.concatenate([one.rest for one in long])))
        first, last = (pace * x for x in first_and_last(long, [one.of_rest(one.own) for one in long], at_epoch))
        step, _ = (pace * x for x in first_and_last(long, [one.of_rest(one.launch.whole) for one in long], at_epoch))
        raw = first_and_last(long, [one.launch.whole for one in long], at_epoch)
        if min(step, *raw) <= 0 or (last - first) * z <= 0:
            return None
        steps, known = (max(getattr(one, name) for one in self.launches) for name in ("span", "epoch"))
        found = Course(
            phase=" and ".join(phases),
            first=first,
            last=last,
            step=step,
            steps=steps,
            epoch=known if at_epoch else 0,
            beyond_epoch=known if not at_epoch and known < steps else 0,
            once=not _seen_again(watched, at_epoch, z),
        )
        by_clock = math.log(raw[1] / raw[0]) / math.log(found.change) if found.change > 0 else 0.0
        return found if by_clock >= STEP_CHANGE_PART else None


def _seen_again(launches: Sequence[LaunchRatios], at_epoch: bool, z: float) -> bool:
    """Return whether more than one time shows a change in this direction by itself.

    Launches that trained at different times do, and so does one in which it goes on in both halves.
    """

    def shows(one: LaunchRatios) -> bool:
        own = z_score([one], across=at_epoch)
        return own * z > 0 and two_sided_p(own) <= P_ONCE

    goes_on = not at_epoch and any(all(map(shows, halves(one))) for one in launches)
    return goes_on or len({one.time for one in launches if shows(one)}) > 1


def placed(one: Course, profile: ProfileRecord, together: bool = False) -> Course:
    """Return a course with the user's line in which most of the growth must lie, by a `profile` of late steps.

    Where ranks train `together`, they wait for each other at some lines, which say nothing.
    """
    there = [place for place in profile.places if place.phase == one.phase and place.own]
    most = max(there, key=lambda place: place.share, default=None)
    if not (one.grows and most and profile.start) or (together and one.phase in WHERE_RANKS_WAIT):
        return one
    beyond = most.share * (one.step + one.last - one.first) - one.first
    return replace(one, where=most.where) if beyond >= NAMED_GROWTH_PART * (one.last - one.first) else one
