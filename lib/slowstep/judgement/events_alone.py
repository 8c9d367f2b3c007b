"""Periodic events that were measured on their own: what the first and a later one take in the job."""

from __future__ import annotations

from dataclasses import dataclass, fields

from slowstep.records import EventRecord
from slowstep.settings.periodic_events import of_whole
from slowstep.settings.run import Run


@dataclass(frozen=True, kw_only=True)
class EventSeconds:
    """The seconds that one periodic event takes in the job. The first may take longer, as a pass is compiled in it."""

    once: float
    """What the first takes beyond the mean of the later ones."""
    mean: float
    """The mean of the later ones; of the first, where there are no later ones."""
    most: float
    """The longest of these."""
    least: float
    """The shortest of these."""

    def per_step(self, steps: float) -> EventSeconds:
        """Return the seconds of each of so many `steps`, if the event is shared out among them."""
        return EventSeconds(**{part.name: getattr(self, part.name) / steps for part in fields(self)})


def event_seconds(run: Run, events: EventRecord | None, event: str) -> EventSeconds | None:
    """Return the seconds of an event in the job, whose evaluations may be larger; None if it was not measured alone."""
    seconds = events.seconds.get(event) if events else None
    if not seconds:
        return None
    fixed = events.fixed.get(event) or [0.0] * len(seconds)
    seen = events.samples.get(event)
    whole = [of_whole(run, took, seen, once) for took, once in zip(seconds, fixed, strict=True)]
    later = whole[1:] or whole
    mean = sum(later) / len(later)
    return EventSeconds(once=max(0.0, whole[0] - mean), mean=mean, most=max(later), least=min(later))
