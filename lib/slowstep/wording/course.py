"""The course of a run in words: steps that become longer or shorter as training goes on."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.judgement.course import Course
from slowstep.text.numbers import percentage
from slowstep.text.phases import phase_named
from slowstep.text.sentences import capitalised
from slowstep.wording.words import duration

ONCE = "That was seen at one time alone, so something else on this machine may have done it; more minutes would tell."
"""What has to be said of a change that no second time has shown."""


def course(found: Sequence[Course]) -> str:
    """Return what becomes of the steps as training goes on, in sentences; empty if they keep their pace."""
    return " ".join(_told(one) for one in found)


def seen_at_several_times(found: Sequence[Course]) -> list[Course]:
    """Return the courses that were seen at more than one time."""
    return [one for one in found if not one.once]


def seen_once(found: Sequence[Course]) -> list[Course]:
    """Return the courses that were seen at one time alone: something else may have made them."""
    return [one for one in found if one.once]


def _told(one: Course) -> str:
    how, by = ("longer", one.change - 1) if one.grows else ("shorter", 1 - one.change)
    at = f", at {one.where}" if one.where else ""
    first, last = (duration(seconds, beside=one.step) for seconds in (one.first, one.last))
    when, before, after = "training goes on", f"first third of the {one.steps:,} steps watched", "in the last"
    if one.epoch:
        when, before, after = "the first epoch ends", f"{one.epoch:,} steps of that epoch", "after it"
    text = (
        f"{capitalised(phase_named(one.phase))} changes as {when}{at}: it takes {first} a step in the {before} and "
        f"{last} {after}, so steps become {percentage(by)} {how}."
    )
    if one.once:
        return f"{text} {ONCE}"
    if not one.grows:
        return f"{text} What costs there passes, at least in part, so figures hold for the beginning of training."
    if one.epoch:
        return f"{text} So figures of the first epoch don't hold for later ones."
    goes_on = f"If that goes on, each {one.adds_a_step_in:,} steps add the time that a step took at first."
    if one.beyond_epoch:
        emptied = f"what the program empties after each epoch of {one.beyond_epoch:,} steps grows on in them"
        return f"{text} {goes_on} Trials let an epoch go on without end, so {emptied}."
    return f"{text} {goes_on}"


def epochs_end(why: str) -> str:
    """Say that epochs end in trials, and why; empty if they go on without end."""
    return f"Epochs end in trials as in the program, since {why}." if why else ""
