"""The check that a change took effect: the facts that it has to show, held against those that its trial observed."""

from __future__ import annotations

from slowstep.factors import Contrast
from slowstep.judgement.ranks import UNLIKE, unlike_ranks
from slowstep.records import ComparisonRecord
from slowstep_probe.changing.intervention import given_name
from slowstep_probe.measured import WHY_NOT

MEASURED = ("changes", "recompilations", "draws", "garbage_collection_share", "numbers_of_sample")
"""The facts in which two launches of one program may differ."""


def missing_change(contrast: Contrast, record: ComparisonRecord) -> str | None:
    """Return the expected fact that the trial did not show, in words; None if the change took effect."""
    for fact, wanted in contrast.expects.items():
        found = record.treatment.observed.get(fact)
        name = given_name(fact)  # a program may keep what its command is given under another name
        if fact in unlike_ranks(record.treatment):
            return f"{fact} is {found!r} in the first rank, and other ranks have another value"
        if found == wanted or (name and found is None and _differ(contrast, record)):
            continue
        if name:
            held = "holds no such value" if found is None else f"holds {found!r}"
            return f"asked for {name} = {wanted!r}, and not seen in effect: the program {held}"
        why = record.treatment.observed.get(f"{WHY_NOT}{fact}")
        return f"{fact} is {found!r} in the trial, {wanted!r} was asked for{f': {why}' if why else ''}"
    return None


def _differ(contrast: Contrast, record: ComparisonRecord) -> bool:
    """Return whether a fact of both arms that nobody asked for differs, so that something took effect."""
    before, after = record.baseline.observed, record.treatment.observed
    asked = {*contrast.expects, *MEASURED, UNLIKE}
    both = [name for name in before.keys() & after.keys() - asked if not given_name(name)]
    return any(before[name] != after[name] for name in both)
