"""Periodic events that were measured on their own: what the first and a later one take in the job."""

from __future__ import annotations

from dataclasses import dataclass, fields

from slowstep.records import EventRecord
from slowstep.settings.periodic_events import of_whole
from slowstep.settings.run import Run


@dataclass(frozen=True, kw_only=True)
class Alone:
    """One event in the job, in seconds. The first one may take longer, as a pass is compiled in it."""

    once: float
    """What the first takes beyond the mean of the later ones."""
    mean: float
    """The mean of the later ones; of the first, where there are no later ones."""
    most: float
    """The longest of these."""
    least: float
    """The shortest of these."""

    def shared_by(self, steps: float) -> Alone:
        """Return the seconds for each of so many steps."""
        return Alone(**{part.name: getattr(self, part.name) / steps for part in fields(self)})


def measured_alone(run: Run, events: EventRecord | None, event: str) -> Alone | None:
    """Return what an event takes in the job, whose evaluations may be larger; None if it was not measured."""
    seconds = events.seconds.get(event) if events else None
    if not seconds:
        return None
    fixed = events.fixed.get(event) or [0.0] * len(seconds)
    seen = events.samples.get(event)
    whole = [of_whole(run, took, seen, once) for took, once in zip(seconds, fixed, strict=True)]
    later = whole[1:] or whole
    mean = sum(later) / len(later)
    return Alone(once=max(0.0, whole[0] - mean), mean=mean, most=max(later), least=min(later))
