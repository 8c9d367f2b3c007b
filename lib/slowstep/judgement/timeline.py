"""Everything that is known of the steps of one arm: the steady steps of all its launches, put together.

Launches train on the same samples in the same order, so steps at one position are one step seen several times. A stall
that comes at none of these positions is missed, however often they are measured. So distinct steps count as evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from slowstep.judgement.intervals import Interval
from slowstep.judgement.shares import long_steps, share
from slowstep.records import PHASES, Steps

MISSED = 0.03
"""The chance of missing all stalls of a rate that matters, as far as it is allowed."""

SEEN_ONCE = -math.log(MISSED)
"""The number of mean distances between stalls to observe, so that at least one stall is met. If stalls come at random
in one of n steps, N steps miss them all with the chance (1 - 1/n)^N, about exp(-N/n)."""


NOTICED = 0.01
"""The least change of a share that a reader would notice."""


@dataclass(frozen=True, kw_only=True)
class StepsSeen:
    """The steps that a share, or a bound made from it, rests on."""

    steps: int
    """The number of distinct steps."""
    seconds: float
    """Seconds of all the steps timed, repeated ones included."""
    limit: str = ""
    """The reason why there are no more steps, where it is not lack of time."""

    @property
    def rarest(self) -> int:
        """Return n such that stalls which come less often than once in n steps could all have been missed."""
        return int(self.steps / SEEN_ONCE)

    @property
    def missed(self) -> str:
        """Return which stalls could all have been missed, as a clause."""
        rarer = f"a stall rarer than one in {self.rarest:,} steps"
        return f"{rarer if self.rarest > 1 else 'any stall'} could have been missed"

    def __str__(self) -> str:
        steps = f"{self.steps:,} distinct step{'s' * (self.steps != 1)}" + (f" ({self.limit})" if self.limit else "")
        return f"{steps} in {self.seconds:.0f} s of training; {self.missed}"


def steps_to_see(rarest: int) -> int:
    """Return the number of distinct steps that meet a stall which comes in one of `rarest`, but for `MISSED`."""
    return math.ceil(rarest * SEEN_ONCE)


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Distinct steps in the order of training. A step that was timed several times counts with its mean."""

    position: np.ndarray
    """Shape (n,): samples trained on when the step began."""
    phases: dict[str, np.ndarray]
    """Seconds a phase, each of shape (n,); all phases are there."""
    seconds: float
    """All that was timed, in seconds."""

    @property
    def whole(self) -> np.ndarray:
        """Return the seconds of each step, shape (n,)."""
        return np.sum(list(self.phases.values()), axis=0)

    @property
    def evidence(self) -> StepsSeen:
        """Return this timeline as evidence."""
        return StepsSeen(steps=len(self.position), seconds=self.seconds)

    def share(self, *phases: str) -> Interval:
        """Return the share of the time, 0 to 1, that some phases take together."""
        return share(np.sum([self.phases[p] for p in phases], axis=0), self.whole, self.position)

    def in_stalls(self, *phases: str) -> float:
        """Return the share of the time, 0 to 1, by which steps take far longer in some phases than they usually do."""
        if not len(self.position):
            return 0.0
        return float(self._stalls(phases).sum() / self.whole.sum())

    def spacing(self, phases: Iterable[str], least: float) -> int:
        """Return the mean number of steps from one stall in `phases` to the next.

        1 where stalls take less than the share `least`. Stalls count by their size: a few long ones among many short
        ones are few.
        """
        stalls = self._stalls(phases)
        if not stalls.any() or stalls.sum() < least * self.whole.sum():
            return 1
        number = stalls.sum() ** 2 / (stalls**2).sum()
        return max(1, round(len(stalls) / number))

    def _stalls(self, phases: Iterable[str]) -> np.ndarray:
        return long_steps(np.sum([self.phases[p] for p in phases], axis=0))


def contradicted(before: Mapping[str, Interval], now: Timeline) -> list[str]:
    """Return the phases whose share lies outside the interval known `before` by more than a hundredth of the time."""
    return [
        phase
        for phase, share in before.items()
        if phase in now.phases and not share.lower - NOTICED <= now.share(phase).mean <= share.upper + NOTICED
    ]


def timeline(launches: Iterable[Steps]) -> Timeline:
    """Put the steps of these launches together."""
    found = [steps for steps in launches if len(steps)]
    columns = {
        p: np.concatenate([np.asarray(s.phases.get(p) or np.zeros(len(s))) for s in found] or [np.zeros(0)])
        for p in PHASES
    }
    every = np.concatenate([np.asarray(s.position) for s in found] or [np.zeros(0, dtype=int)])
    position, where, times = np.unique(every, return_inverse=True, return_counts=True)
    return Timeline(
        position=position,
        phases={p: np.bincount(where, weights=c, minlength=len(position)) / times for p, c in columns.items()},
        seconds=float(sum(c.sum() for c in columns.values())),
    )
