"""Suspects outside the passes: phases that train nothing, time between the phases, and hooks on an optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slowstep.judgement.intervals import Interval
from slowstep.judgement.operators import PROFILE_ERROR, ProfileShare, places, training
from slowstep.judgement.run_facts import RunFacts
from slowstep.judgement.shares import long_steps
from slowstep.judgement.suspects.suspect import NAMED, PASSES, Suspect, largest
from slowstep_probe.profiled import PassLoop

MADE = " itself (where it makes what is trained on, experience, targets or texts, that can be faster, and not left out)"
"""What has to be said of a model that is run without training it in the steps, which may be for the steps' own sake."""

OFTEN = 1 / 3
"""The share of long steps beyond which a phase is slow throughout, and not now and then."""


def suspect_wait(facts: RunFacts, phase: str, least: float) -> Suspect:
    """Return all the time of a phase that trains nothing. Places are named that take half of the share `least`.

    An event that is too rare for the steps, and was measured on its own, counts with its share of the job's time.
    """
    named = places(facts.places, phase, NAMED * least)
    made = MADE if phase == "evaluate" and not facts.events_alone.get(phase) else ""
    why = f"it trains nothing{made}{_now_and_then(facts, phase)}"
    share = facts.share_of_job(phase)
    parts, loop = largest(_within(named, share)), _of_single_rows(facts, phase)
    if loop is not None:
        why += f"; {loop.where} calls {loop.name} for one row at a time, and one call could take all that are known"
        parts["mostly"] = f"{loop.where}, {loop.calls:,} calls of {loop.name} in a step"
    return Suspect(phase=phase, share=share, why=why, **parts)


def _of_single_rows(facts: RunFacts, phase: str) -> PassLoop | None:
    """Return the line that calls a model most often in a phase, each time for a single row; None if none does."""
    loops = facts.profile.pass_loops if facts.profile else []
    return next((loop for loop in loops if loop.phase == phase and loop.rows == 1), None)


def suspect_between_phases(facts: RunFacts, least: float) -> Suspect | None:
    """Return the time between the phases that is spent at single places or in long steps.

    None if it is certainly too little. `least` is the least share of the time, 0 to 1, that matters.
    """
    share, profile = facts.shares["other"], facts.profile
    named = places(facts.places, "other", NAMED * least)
    at_places = max(0.0, sum(p.share for p in named) - (training(profile, "other") if profile else 0.0))
    in_stalls = facts.timeline.in_stalls("other")
    if at_places >= in_stalls:
        share = _at_places(at_places, share)
    else:
        rest = share.mean - in_stalls
        share = replace(share, mean=in_stalls, lower=max(0.0, share.lower - rest), upper=share.upper - rest)
    if share.upper < least:
        return None
    why = "it trains nothing" + _now_and_then(facts, "other")
    beside_it = beside_lost(facts, "other", share)
    return Suspect(phase="other", share=share, why=why, **largest(_within(named, facts.shares["other"])), **beside_it)


def suspect_hooks(facts: RunFacts, least: float) -> Suspect | None:
    """Return the time of an optimizer's step in hooks of the program's own; None if it is certainly too little.

    All else there is the update, which trains, whoever wrote its rule.
    """
    named = places([place for place in facts.places if place.hooked], "optimizer", NAMED * least)
    whole = facts.shares["optimizer"]
    share = _at_places(sum(part.share for part in named), whole)
    if not named or share.upper < least:
        return None
    return Suspect(
        phase="optimizer",
        share=share,
        why="a hook on the optimizer runs there, and trains nothing",
        **largest(_within(named, whole)),
        **beside_lost(facts, "optimizer", share),
        comparable=False,
    )


def _at_places(taken: float, share: Interval) -> Interval:
    """Return the part of a phase's `share` that is spent at places, which looks at some steps tell to be `taken`."""
    known = min(taken, share.upper)
    if known >= share.mean:
        return share
    upper = min(known * PROFILE_ERROR, share.upper)
    return replace(share, mean=known, lower=min(known / PROFILE_ERROR, share.lower), upper=upper)


def beside_lost(facts: RunFacts, phase: str, loses: Interval) -> dict[str, float]:
    """Return the time of a phase beside what it `loses`, as a suspect holds it.

    Empty for a pass, of which only the loss is known.
    """
    if phase in PASSES:
        return {}
    whole = facts.shares[phase].mean
    return {"ordinary": max(0.0, whole - loses.mean), "ordinary_at_most": max(0.0, whole - loses.lower)}


def _within(parts: Sequence[ProfileShare], share: Interval) -> list[ProfileShare]:
    """Return the parts as shares that are together no more than a phase takes.

    The profiled steps may hold more of what comes now and then, an evaluation say, than others do on the mean.
    """
    by = min(1.0, share.mean / max(sum(part.share for part in parts), 1e-9))
    return [replace(part, share=by * part.share) for part in parts]


def _now_and_then(facts: RunFacts, phase: str) -> str:
    """Return a note on how often long steps come, if a few of them hold most of the phase; else an empty text."""
    taken = facts.timeline.phases[phase]
    far = long_steps(taken)
    long = far > 0.1 * facts.timeline.whole.mean()
    if not 0 < long.mean() <= OFTEN or far[long].sum() < 0.5 * taken.sum():
        return ""
    return f"; one step in {1 / long.mean():.0f} is a long one, and those hold most of it"
