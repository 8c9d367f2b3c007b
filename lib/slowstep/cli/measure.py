"""`slowstep measure`: all that the notebooks would measure, without Jupyter, with the verdicts as text."""

from __future__ import annotations

import contextlib
from pathlib import Path

from slowstep.audit.terminal_lines import claim_lines
from slowstep.batch.cleanup import forget_failures, unusable_records
from slowstep.cli.progress import Terminal
from slowstep.final.choice import choose, profiles
from slowstep.final.decision import decision_of
from slowstep.investigation import Unmeasurable, open_lab
from slowstep.investigation.batch_size import find_batch
from slowstep.investigation.corrections import contradictions
from slowstep.investigation.lab import PLAN, Lab
from slowstep.investigation.opening import pursue_plan
from slowstep.judgement.verdict import Verdict
from slowstep.processes.lock import locked
from slowstep.records import Store
from slowstep.settings import Loaded
from slowstep.settings.sections import AUDIT, BASELINE, FINAL, TESTED, Section
from slowstep.text.terminal import say
from slowstep.wording.causes import causes
from slowstep.wording.words import SIGNS, effect


def measure(loaded: Loaded, outputs: Path) -> int:
    """Measure one investigation, print its verdicts, and return 0; 1 if the baseline can't be trained."""
    folder = outputs / loaded.settings.name
    with locked(folder):
        forget_failures(Store(folder / "records"))
        for line in unusable_records(folder):
            say(line, error=True)
        try:
            _measured(loaded, outputs)
        except Unmeasurable as error:
            say(f"{loaded.settings.name}: {error}", error=True)
            return 1
    say(f"records: {folder / 'records'}; `slowstep report {folder}` draws them, on any machine")
    return 0


def _measured(loaded: Loaded, outputs: Path) -> None:
    terminal, said = Terminal(loaded.settings.name), {}
    for section in (BASELINE, *TESTED):
        found = _section(loaded, outputs, section, terminal)
        if section is BASELINE:
            pursue_plan(loaded, outputs, lambda progress: terminal(PLAN, progress))
        _say(section.title, found)
        said |= {v.name: v for v in found}
    moved = contradictions(outputs / loaded.settings.name)
    if moved:
        say(f"later steps of the baseline show another share of {', '.join(moved)}: bounds that rested on it are gone")
        for section in (BASELINE, *TESTED):
            found = _section(loaded, outputs, section, terminal)
            _say(f"{section.title}, once more", [v for v in found if v.outcome is not said[v.name].outcome])
            said |= {v.name: v for v in found}
    with contextlib.closing(_open(loaded, outputs, FINAL, terminal)) as lab:
        choice = choose(lab)
        profiles(lab, choice)
        lab.conclude(decision=decision_of(choice))
        _say(
            "Other by fresh pairs", [v for v in choice.verdicts if v.name in said and v.outcome != said[v.name].outcome]
        )
        for cause in causes(choice.verdicts, lab.suspects, loaded.settings.budget.minimum_effect):
            say(f"cause: {cause.text}")
        _say(FINAL.title, [choice.verdict] if choice.verdict else [])
    if loaded.settings.reported:
        with contextlib.closing(_open(loaded, outputs, AUDIT, terminal)) as lab:
            for line in claim_lines(lab.audit):
                say(line)


def _section(loaded: Loaded, outputs: Path, section: Section, terminal: Terminal) -> list[Verdict]:
    """Measure what the notebook of a section would, and return its verdicts."""
    with contextlib.closing(_open(loaded, outputs, section, terminal)) as lab:
        found = lab.test(section.name) if section.name else []
        if section.searches_batch:
            found += [s.measured.verdict for s in find_batch(lab) if s.measured]
        lab.conclude()
    return list({v.name: v for v in found}.values())


def _open(loaded: Loaded, outputs: Path, section: Section, terminal: Terminal) -> Lab:
    return open_lab(loaded, outputs, section.notebook, watch=lambda progress: terminal(section.notebook, progress))


def _say(title: str, verdicts: list[Verdict]) -> None:
    if verdicts:
        say(f"{title}:")
    for verdict in verdicts:
        said = f"{verdict.outcome}, {effect(verdict.effect)}; {verdict.reason}"
        say(f"  {SIGNS[verdict.outcome]} {verdict.shown}: {said}")
