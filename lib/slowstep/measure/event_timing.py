"""The periodic events of an arm (saving, evaluating), made to happen a few times and timed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from slowstep.factors import Arm
from slowstep.launch.trial_process import NoTimeLeft, TrialEnded
from slowstep.measure.measurer import NO_TIME
from slowstep.measure.pool import TrialPool
from slowstep.records import EventRecord, identity
from slowstep_probe.trial.messages import PeriodicEventDone

OCCURRENCES = 3
"""The number of times that a periodic event is measured. The first may be slower, and the report shows them all."""


@dataclass
class _Occurrences:
    """The occurrences of one event that were timed, and how its timing ended."""

    done: list[PeriodicEventDone] = field(default_factory=list)
    failed: str | None = None
    """The reason why it was not timed, or no more; None if nothing failed."""
    trial_ended: bool = False
    """True if the trial failed meanwhile."""
    cut: bool = False
    """True if the time was over before all occurrences."""


def time_events(pool: TrialPool, arm: Arm, deadline: float) -> EventRecord:
    """Measure each periodic event of `arm` several times, and once where more would pass the deadline.

    The first time it is seen which lines of code its time goes to. The record says which events failed, or were not
    reached in the time.
    """
    key, minutes = identity(arm.determinants()), pool.budget.minutes
    try:
        events = pool.launch(arm, key).periodic_events
    except NoTimeLeft:
        return EventRecord(seconds={}, failed={"launch": NO_TIME}, cut_within=minutes)
    except TrialEnded as ended:
        return EventRecord(seconds={}, failed={"launch": str(ended)})
    found = {event: _timed(pool, arm, key, event, deadline) for event in events}
    done = {event: one.done for event, one in found.items() if one.done}
    last = {event: each[-1] for event, each in done.items() if not found[event].trial_ended}
    fixed = {event: [one.fixed for one in each] for event, each in done.items()}
    return EventRecord(
        seconds={event: [one.seconds for one in each] for event, each in done.items()},
        bytes={event: one.bytes for event, one in last.items() if one.bytes is not None},
        samples={event: one.samples for event, one in last.items() if one.samples is not None},
        fixed={event: each for event, each in fixed.items() if any(each)},
        places={event: each[0].places for event, each in done.items()},
        failed={event: one.failed for event, one in found.items() if one.failed is not None},
        cut_within=minutes if any(one.cut for one in found.values()) else None,
    )


def _timed(pool: TrialPool, arm: Arm, key: str, event: str, deadline: float) -> _Occurrences:
    """Make one event happen up to `OCCURRENCES` times, and return what it took."""
    found = _Occurrences()
    try:
        trial = pool.launch(arm, key)
        while len(found.done) < OCCURRENCES and not found.cut:
            if found.done and time.monotonic() + found.done[-1].seconds > deadline:
                found.cut = True
            else:
                found.done.append(trial.do(event, looks=not found.done))
    except NoTimeLeft:
        pool.end(key)
        found.cut = True
        found.failed = None if found.done else NO_TIME
    except TrialEnded as ended:
        pool.end(key)
        found.failed, found.trial_ended = str(ended), True
    return found
