"""What a trial shows of its change: the lines of a command's code that it was made at, and that it took effect."""

from __future__ import annotations

from slowstep.factors import Contrast, in_code
from slowstep.factors.factor import show
from slowstep.judgement.ranks import UNLIKE, unlike_ranks
from slowstep.records import ComparisonRecord
from slowstep_probe.changing.intervention import given_name
from slowstep_probe.measured import WHY_NOT

MEASURED = ("changes", "recompilations", "draws", "garbage_collection_share", "numbers_of_sample")
"""The facts in which two launches of one program may differ."""


def planned_lines(contrast: Contrast) -> list[str]:
    """Return the change as it is to be made in a command's program; nothing for a described run."""
    run = contrast.baseline.settings.run
    return [] if run.objects is None else in_code.words(_new(contrast), run)


def made_lines(contrast: Contrast, record: ComparisonRecord) -> list[str]:
    """Return the change as it was made in a command's program, with its places; what has no place comes last."""
    settings = contrast.treatment.settings
    if settings.command is None:
        return []
    changes = in_code.changes_of(record.treatment.observed)
    made = {one["key"] for one in changes}
    others = {key: value for key, value in _new(contrast).items() if key not in made}
    return in_code.lines(changes, settings.command) + in_code.words(others, contrast.baseline.settings.run)


def replaced(contrast: Contrast, record: ComparisonRecord) -> list[str]:
    """Return what a command and its program say now where the change was made: `num_workers=0`, `--batch_size 8`."""
    run = contrast.baseline.settings.run
    if run.objects is None:
        return []
    options = [
        f"{given} {show(now)}"
        for factor, level in contrast.levels
        for key in level.overrides
        if (given := given_name(key)) and (now := factor.current(run)) is not None
    ]
    return in_code.replaced(in_code.changes_of(record.treatment.observed)) + options


def _new(contrast: Contrast) -> dict[str, object]:
    """Return the settings of the treatment that the baseline has otherwise. What nobody saw switched on is off."""
    run, off = contrast.baseline.settings.run, (False, None)
    changed = {key: value for key, value in contrast.overrides.items() if run[key] != value}
    return {key: value for key, value in changed.items() if not (run[key] in off and value in off)}


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
