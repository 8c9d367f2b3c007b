"""The whole job with changes: its steps may be faster, and what it takes to start may never come back."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slowstep.investigation.lab import Lab
from slowstep.investigation.results import Measured
from slowstep.judgement.projection import START, Projection

NOT_SOONER = "the job would not end sooner with it"
"""Why a change that makes steps faster is left out."""


@dataclass(frozen=True, kw_only=True)
class JobTime:
    """The seconds of the run's own job."""

    seconds: float
    start: float
    """The part of `seconds` that steps do not take: the start, and what is slow only at first."""

    def gain(self, of_steps: float, later: float) -> float:
        """Return the log-ratio by which the job is shorter with steps that are faster and a start that is `later`.

        `of_steps` is a log-ratio, and `later` is in seconds.
        """
        start = max(0.0, self.start + later)
        return math.log(self.seconds / ((self.seconds - self.start) * math.exp(-of_steps) + start))

    def break_even(self, gain: float, later: float, other_later: float) -> float:
        """Return how many times as fast the steps of a challenger must be so that its job ends as soon as another one.

        The other job is shorter than the run's own by `gain`, a log-ratio, and starts `later` by these seconds. The
        challenger starts `other_later`. Infinite if no speed makes up for that.
        """
        whole = self.seconds * math.exp(-gain)
        steps, allowed = (whole - max(0.0, self.start + one) for one in (later, other_later))
        return steps / allowed if allowed > 0 else math.inf


def job_of(lab: Lab) -> JobTime | None:
    """Return the run's own job; None if its size is not known."""
    before = _projected(lab)
    return before and JobTime(seconds=before.seconds, start=sum(before.parts[part] for part in START))


def ends_sooner(lab: Lab, one: Measured, than: Measured | None = None) -> bool:
    """Return whether the job ends sooner with a change than with another, or than as it is; True if none is known."""
    after, before = _projected(lab, one), _projected(lab, than)
    return before is None or after is None or after.seconds < before.seconds


def _projected(lab: Lab, change: Measured | None = None) -> Projection | None:
    _ = lab.baseline  # whatever is projected rests on it
    return lab.evidence.at_one_pace(change)
