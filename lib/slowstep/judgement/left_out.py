"""What the projection of a job leaves out: what no trial meets, and nothing measured on its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from slowstep.records import EventRecord
from slowstep.settings import Settings
from slowstep.settings.epochs import why_epochs_end
from slowstep.settings.periodic_events import EVENTS, is_rare, not_made_to_happen, strategy
from slowstep.settings.run import Run

NAMES = {"save": "saving", "evaluate": "evaluating"}
"""The names of the periodic events among the parts of a job."""

SELDOM = "what the program does too seldom for a trial to meet it (as evaluating and saving may be)"
"""What is left out of a job whose program trains by a loop of its own, or by another library's."""

AFTER_EPOCHS = "what the program does after each epoch or seldom (such as evaluating and saving), which no trial meets"
"""What else is left out where epochs go on without end."""

LATER_EPOCHS = "whatever later epochs train otherwise than the first, whose end was not surveyed"
"""What else is left out of a job of several epochs, where no survey saw an epoch's end."""

BEST = "saving after the best evaluations, as it is not known how many these are"
"""What is left out where a Trainer saves after evaluations that are measured on their own."""


def left_out(
    settings: Settings, events: EventRecord | None, counted: Collection[str], observed: Mapping[str, object]
) -> str:
    """Return what is left out of a job, as clauses; empty if nothing is known to be.

    `counted` holds the periodic events that the job's parts hold, and `observed` are the facts of the trial that its
    pace comes from.
    """
    run = settings.run
    clauses = []
    if settings.command and "arguments" not in (run.objects or ()):
        unknown = _go_on(run, observed) and seconds_after_epoch(settings, observed) is None
        clauses.append(AFTER_EPOCHS if unknown else SELDOM)
        clauses += [LATER_EPOCHS] if unknown and (settings.job.epochs or 0) > 1 else []
    for event in (e for e in EVENTS if is_rare(run, e) and e not in counted):
        if strategy(run, event) != "best":
            clauses.append(f"{NAMES[event]}, {_why(settings, events, event)}")
        elif is_rare(run, "evaluate"):
            clauses.append(BEST)
    return "; ".join(clauses)


def seconds_after_epoch(settings: Settings, observed: Mapping[str, object]) -> float | None:
    """Return the seconds that a command's program takes after an epoch, as its survey met it, and no trial does.

    None where the survey met no epoch's end, and where trials meet it.
    """
    run = settings.run
    return run["seconds_after_epoch"] if settings.command and _go_on(run, observed) else None


def _go_on(run: Run, observed: Mapping[str, object]) -> bool:
    """Return whether the epochs of a command's trials went on without end."""
    objects = run.objects or frozenset()
    return "loader" in objects and "arguments" not in objects and not why_epochs_end(run, observed)


def _why(settings: Settings, events: EventRecord | None, event: str) -> str:
    """Return why a periodic event has no part of a job, as the end of a clause."""
    if why := not_made_to_happen(settings, event):
        return f"as far as the trials did not meet it: {why}"
    failed = events.failed if events else {}
    why = failed.get(event) or failed.get("launch")
    return f"which could not be measured ({why})" if why else "which was not measured"
