"""The overview of an investigation, gathered from the records in its folder."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from slowstep.environment.machine import Machine
from slowstep.environment.own_code import judging_code
from slowstep.factors import Arm
from slowstep.factors.entries import TRAINING_ARGUMENTS
from slowstep.investigation import NotMeasured, Unmeasurable, read_investigation
from slowstep.investigation.minutes import spent_in_all
from slowstep.investigation.opening import DESCRIPTION, Description
from slowstep.investigation.results import (
    AUDITED,
    INTERRUPTED,
    UNDER_WAY,
    Audited,
    Decision,
    NotebookRun,
    Summary,
)
from slowstep.investigation.sections_to_answer import sections_to_answer
from slowstep.judgement.verdict import Verdict
from slowstep.judgement.verdicts_together import reconsidered
from slowstep.processes.lock import is_locked, require_inside
from slowstep.records import Block, ComparisonRecord, Store, identity
from slowstep.records.other_files import of_other_files
from slowstep.records.plain_files import is_plain, read_plain
from slowstep.report.overview import Overview
from slowstep.settings.convert import from_plain
from slowstep.settings.sections import AUDIT, BASELINE, FINAL, SECTIONS, TESTED, Section
from slowstep.text.phases import PHASE_NAMES
from slowstep.text.visible import visible_lines
from slowstep.wording.causes import causes
from slowstep.wording.course import course, epochs_end, seen_at_several_times, seen_once
from slowstep.wording.edited import after_survey, not_counted
from slowstep.wording.first_reads import waits_for_disk
from slowstep.wording.held_back import busy, other_threads, quota
from slowstep.wording.words import SIGNS, apart, share

LONGEST_PATCH = 60
"""The most lines of a patch that the index shows."""


def overview(folder: Path) -> Overview:
    """Return what one investigation says, from its records: of the run that was last described, and of no other.

    Busy if a link in its folder leads out of it.
    """
    require_inside(folder)
    store = Store(folder / "records")
    now = is_locked(folder)
    runs = [_told(run, now) for run in store.every(NotebookRun, "notebooks")]
    about = store.read(Description, *DESCRIPTION)
    summaries = {s.notebook: s for s in _of_what_is_described(store.every(Summary, "summaries"), about)}
    final, baseline = summaries.get(FINAL.notebook), summaries.get(BASELINE.notebook)
    first = baseline or Summary(notebook="")  # which concludes nothing
    latest = (final or first) if baseline else first  # it knows more steps of the run as it is
    verdicts = _verdicts(summaries, final)
    if baseline and not final:
        waiting = [section for section in SECTIONS if section.notebook not in summaries]
        verdicts += [v for v in decided_so_far(folder, waiting) if v.name not in {known.name for known in verdicts}]
    ended = {run.notebook: run for run in runs}
    spent = spent_in_all(store, about.run_identity if about else "", summaries)
    decided = final.decision if final else None
    remaining = decided.remaining if decided else None
    compared = _comparisons(store, summaries)
    with_itself = [one for one in compared if len(set(one.arms)) == 1]
    return Overview(
        name=folder.name,
        runs=runs,
        verdicts=sorted(verdicts, key=lambda v: (list(SIGNS).index(v.outcome), -v.gain)),
        causes=causes(verdicts, latest.suspects, latest.minimum_effect, remaining) if baseline else [],
        largest=_largest(latest),
        decided=decided or (Decision() if final else None),
        fails=first.fails,
        unmeasured="" if baseline else _why(ended.get(BASELINE.notebook), "the baseline", now, "was not measured"),
        undecided="" if final else _why(ended.get(FINAL.notebook), FINAL.notebook, now, "has not run"),
        shares={phase: share.mean for phase, share in latest.shares.items()},
        noise=first.noise,
        apart=apart(first.apart),
        minimum_effect=first.minimum_effect or (about.settings.budget.minimum_effect if about else 0.0),
        held_back=_held_back(first, latest, with_itself, about),
        doubts=_doubts(first, latest, compared, about, store),
        course=course(seen_at_several_times(first.courses)),
        unprojected=first.unprojected,
        unprofiled=latest.unprofiled,
        audited=_audited(store),
        machine=_machine(about) if about else "",
        ran=_ran(about) if about else "",
        trained=not summaries.keys() | ended.keys() or bool((summaries.keys() | ended.keys()) - {AUDIT.notebook}),
        now=_now(about, decided),
        files=[f"{folder.name}/final/{p.name}" for p in sorted((folder / "final").glob("*")) if is_plain(p)],
        patch=_patch(folder / "final" / "changes.patch"),
        seconds=sum(one.seconds for one in [*spent, *runs]),
        measured_seconds=sum(one.measured_seconds for one in spent),
        other_code=_judged_by_other_code(summaries.values(), folder),
    )


def _held_back(
    first: Summary, latest: Summary, with_itself: Sequence[ComparisonRecord], about: Description | None
) -> list[str]:
    """Return what else holds the run back or ends it, and which files were edited, in sentences; some are empty."""
    edited = after_survey(about.settings.command, about.settings.surveyed, about.as_measured) if about else ""
    return [epochs_end(first.epochs_end), waits_for_disk(latest.first_reads), quota(_blocks(with_itself)), edited]


def _doubts(
    first: Summary, latest: Summary, compared: Sequence[ComparisonRecord], about: Description | None, store: Store
) -> list[str]:
    """Return what the figures may not tell, in sentences; some are empty."""
    return [
        other_threads(latest.beside, first.minimum_effect),
        busy(_blocks(compared)),
        course(seen_once(first.courses)),
        not_counted(of_other_files(store, about.environment)) if about else "",
    ]


def _judged_by_other_code(summaries: Iterable[Summary], folder: Path) -> str:
    """Say that another version has judged what is told, and what to do; empty if this version has."""
    if all(one.code == judging_code() for one in summaries):
        return ""
    again = f"`slowstep report {folder}` judges them by this one's rules"
    return f"Another version of slowstep has judged these records: {again}."


def _audited(store: Store) -> str:
    found = store.read(Audited, *AUDITED)
    return found.answer if found else ""


def _verdicts(summaries: Mapping[str, Summary], final: Summary | None) -> list[Verdict]:
    """Return the verdicts of all notebooks, each change once, as they stand after what the last notebook measured."""
    found: dict[str, Verdict] = {}
    for name in sorted(summaries):
        for v in summaries[name].verdicts:
            found.setdefault(v.name, v)  # of a change in two families the first counts, as for the final choice
    return reconsidered(list(found.values()), final.verdicts if final else [])


def _of_what_is_described(summaries: Iterable[Summary], about: Description | None) -> list[Summary]:
    """Return what notebooks concluded about the run and the environment described, if they are asked something there.

    A conclusion that does not say what it is about counts, and so does that of a notebook of the user's own.
    """
    if about is None:
        return list(summaries)
    settings = about.described
    try:
        asked = sections_to_answer(settings, from_plain(Machine, about.environment.machine))
    except ValueError:  # the description is damaged
        return list(summaries)
    not_asked = {section.notebook for section in SECTIONS if section not in asked}
    arms = ("", identity(Arm(label="", settings=settings).determinants()))
    environments = ("", identity(about.environment.determinants))
    of_it = (s for s in summaries if s.arm in arms and s.environment in environments)
    return [s for s in of_it if s.notebook not in not_asked]


def _comparisons(store: Store, summaries: Mapping[str, Summary]) -> list[ComparisonRecord]:
    """Return the comparisons that there were when the notebooks concluded."""
    known = {name for one in summaries.values() for name in one.records}
    names = [name for name in store.names("comparisons") if f"comparisons/{name}" in known]
    found = [store.read(ComparisonRecord, "comparisons", name) for name in names]
    return [one for one in found if one is not None]


def _blocks(compared: Sequence[ComparisonRecord]) -> list[Block]:
    return [block for one in compared for block in one.blocks]


def _largest(baseline: Summary) -> str:
    """Return the clause on the phase that takes the largest part of the time."""
    if not baseline.shares:
        return ""
    phase, largest = max(((phase, s.mean) for phase, s in baseline.shares.items()), key=lambda one: one[1])
    what = "most" if largest > 0.5 else "the largest part"
    return f"{what} of the step is {PHASE_NAMES[phase]} ({share(largest)})"


def _machine(about: Description) -> str:
    """Return the machine that an investigation describes; empty if the description is damaged."""
    try:
        return str(from_plain(Machine, about.environment.machine))
    except ValueError:
        return ""


def _patch(path: Path) -> str:
    """Return a patch that a page can show as it is; empty for a long one, one with hidden characters, and none."""
    with contextlib.suppress(OSError, ValueError):
        text = read_plain(path).decode()
        return text if text.count("\n") <= LONGEST_PATCH and visible_lines(text) == text else ""
    return ""


def _ran(about: Description) -> str:
    """Return the version of torch with which an investigation measured, and its command; empty if neither is known."""
    command, torch = about.settings.command, about.environment.versions.get("torch", "")
    return ", ".join([*([f"torch {torch}"] if torch else []), *([str(command)] if command else [])])


def _told(run: NotebookRun, under_way: bool) -> NotebookRun:
    """Return a notebook's run as it is told while a process may work on the investigation."""
    return replace(run, status=UNDER_WAY) if under_way and run.status == INTERRUPTED else run


def _why(run: NotebookRun | None, what: str, under_way: bool, otherwise: str) -> str:
    """Return why a notebook has concluded nothing, as its run says."""
    if run and run.status == "failed" and run.reason:
        return f"{run.notebook} failed: {run.reason.rstrip('.')}"
    return f"{what} is {UNDER_WAY}" if under_way else f"{what} {otherwise}"


def _now(about: Description | None, decision: Decision | None) -> dict[str, object]:
    """Return the run's own values of the settings that parts of a decision change."""
    if about is None or decision is None:
        return {}
    run = about.described.run
    keys = {key for v in decision.parts if not v.lines for key in v.overrides}
    found = {}
    for key in keys:
        with contextlib.suppress(KeyError):
            found[key] = run[key.removeprefix(TRAINING_ARGUMENTS)]
    return found


def decided_so_far(folder: Path, asked: Collection[Section]) -> list[Verdict]:
    """Return the verdicts that the notebooks of the sections `asked` would tell now, of what is known by now.

    The list is empty if the baseline is not measured.
    """
    try:
        lab = read_investigation(folder)
        return [v for section in TESTED if section in asked for v in lab.test(section.name) if not v.untried]
    except (NotMeasured, Unmeasurable):
        return []
