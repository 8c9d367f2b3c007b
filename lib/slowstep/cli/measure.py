"""`slowstep measure`: all that the notebooks would measure, without Jupyter, with the verdicts as text."""

from __future__ import annotations

from pathlib import Path

from slowstep.batch.stored import forget_failures, unusable_records
from slowstep.cli.progress import Terminal
from slowstep.final.choice import choose
from slowstep.investigation import Unmeasurable, open_lab
from slowstep.investigation.batch_size import find_batch
from slowstep.investigation.lab import Lab
from slowstep.judgement.verdict import Verdict
from slowstep.processes import locked
from slowstep.records import Store
from slowstep.settings import Loaded
from slowstep.settings.sections import BASELINE, FINAL, TESTED, Section
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
            return _measured(loaded, outputs)
        except Unmeasurable as error:
            say(f"{loaded.settings.name}: {error}", error=True)
            return 1


def _measured(loaded: Loaded, outputs: Path) -> int:
    terminal, tested = Terminal(loaded.settings.name), []
    for section in (BASELINE, *TESTED):
        lab = _open(loaded, outputs, section, terminal)
        try:
            found = lab.test(section.name) if section.name else []
            if section.name == "gradient_checkpointing":
                find_batch(lab)
            lab.conclude()
        finally:
            lab.close()
        _say(section.title, found)
        tested += found
    lab = _open(loaded, outputs, FINAL, terminal)
    try:
        choice = choose(lab)
        lab.conclude(adopted=choice.verdict if choice.adopted else None)
        for cause in causes(choice.verdicts, lab.suspects, loaded.settings.budget.minimum_effect):
            say(f"cause: {cause.text}")
        _say(FINAL.title, [choice.verdict] if choice.verdict else [])
    finally:
        lab.close()
    say(f"records: {lab.folder / 'records'}; `slowstep report {lab.folder}` draws them, on any machine")
    return 0


def _open(loaded: Loaded, outputs: Path, section: Section, terminal: Terminal) -> Lab:
    return open_lab(loaded, outputs, section.notebook, watch=lambda progress: terminal(section.notebook, progress))


def _say(title: str, verdicts: list[Verdict]) -> None:
    if verdicts:
        say(f"{title}:")
    for verdict in verdicts:
        say(f"  {SIGNS[verdict.outcome]} {verdict.name}: {verdict.outcome}, {effect(verdict.effect)}; {verdict.reason}")
