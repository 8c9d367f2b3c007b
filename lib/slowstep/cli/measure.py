"""`slowstep measure`: all that the notebooks would measure, without Jupyter, with the verdicts as text."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Sequence
from pathlib import Path

from slowstep.audit.terminal_lines import claim_lines
from slowstep.batch.cleanup import forget_all_but, forget_other_runs, forget_unfinished, unusable_records
from slowstep.batch.earlier_pages import MOVED, set_aside
from slowstep.batch.measuring import Concluded, measured
from slowstep.cli.closing_lines import more_minutes, unreached, wrapped
from slowstep.cli.edited_files import edited_before
from slowstep.cli.progress import Terminal
from slowstep.environment.system_errors import explained
from slowstep.final.choice import causes_of
from slowstep.final.decision import decision_of
from slowstep.investigation import Unmeasurable
from slowstep.investigation.minutes import spent_in_all
from slowstep.investigation.opening import DESCRIPTION, Description
from slowstep.investigation.results import Decision
from slowstep.investigation.sections_to_answer import sections_to_answer
from slowstep.judgement.verdict import Verdict
from slowstep.measure.slurm.jobs import NoNode
from slowstep.processes.lock import locked
from slowstep.records import Store
from slowstep.records.store import write_atomically
from slowstep.settings import Loaded, SettingsError
from slowstep.settings.sections import AUDIT, BASELINE, FINAL, Section
from slowstep.text.sentences import sentence
from slowstep.text.terminal import say, say_lines
from slowstep.wording.remaining import remains
from slowstep.wording.words import effect, sign


def measure(loaded: Loaded, outputs: Path) -> int:
    """Measure one investigation, print its verdicts, and return 0.

    A section that fails stops no other, though what it would have measured can't be chosen, so the choice fails with
    it. The reason is printed, and of an error that the kit does not know the traceback is kept beside the trials' logs.
    It returns 1 then, or if the baseline can't be trained. NoNode if there is no node to measure on.
    """
    folder = outputs / loaded.settings.name
    terminal, printed = Terminal(loaded.settings.name), _Printed(folder / "records" / "logs")
    for line in edited_before(loaded.settings, outputs):
        say_lines(wrapped(line))
    with locked(folder), terminal:
        asked = _prepared(loaded, folder)
        steps = measured(asked, loaded, outputs, lambda progress: terminal(progress.notebook, progress))
        try:
            with contextlib.closing(steps):
                for concluded in steps:
                    printed.add(concluded)
        except Unmeasurable as error:
            say(f"{loaded.settings.name}: {error}", error=True)
            return 1
    undecided = unreached(list(printed.verdicts.values()), printed.decision)
    if undecided and (how := more_minutes(loaded.settings, _spent(folder))):
        say(how)
    say(f"records: {folder / 'records'}; `slowstep report {folder}` draws them, on any machine")
    return 1 if printed.failed else 0


def _prepared(loaded: Loaded, folder: Path) -> list[Section]:
    """Return the sections that have something to answer, and drop what other runs and other sections concluded."""
    store = Store(folder / "records")
    forget_unfinished(store, loaded.settings.budget.minutes)
    for line in unusable_records(folder):
        say(line, error=True)
    asked = sections_to_answer(loaded.settings)
    old = [section.notebook for section in forget_all_but(asked, store)]
    old += forget_other_runs(loaded.settings, store)
    if set_aside(folder, old, keep=Path(loaded.source)):
        say(MOVED)
    for name in old:  # its report is no longer there
        store.drop("notebooks", name)
    return asked


class _Printed:
    """What was printed of an investigation so far. Tracebacks go to the folder `logs`."""

    def __init__(self, logs: Path):
        self._logs = logs
        self.verdicts: dict[str, Verdict] = {}
        """The verdicts by name, as they were printed last."""
        self.failed: set[Section] = set()
        """The sections that failed, and were not concluded since."""
        self.decision = Decision()

    def add(self, concluded: Concluded) -> None:
        """Print what a section concluded, or why it failed; NoNode if no other section can be measured, either."""
        error, section = concluded.failed, concluded.section
        if isinstance(error, NoNode):
            raise error
        if error is not None:
            self.failed.add(section)
            say(f"{section.title}: {_reason(error, section, self._logs)}", error=True)
            return
        self.failed.discard(section)
        _say(concluded, self.verdicts)
        if concluded.choice is not None:
            self.decision = decision_of(concluded.choice)
        self.verdicts |= {v.name: v for v in concluded.verdicts if concluded.moved or v.name not in self.verdicts}


def _spent(folder: Path) -> float:
    """Return the seconds in which all calls have measured the run of an investigation."""
    store = Store(folder / "records")
    about = store.read(Description, *DESCRIPTION)
    return sum(one.seconds for one in spent_in_all(store, about.run_identity)) if about else 0.0


def _reason(error: Exception, section: Section, logs: Path) -> str:
    """Return why a section failed, in words. An error that the kit does not know leaves its traceback in `logs`."""
    if isinstance(error, OSError):
        return explained(error)
    if isinstance(error, SettingsError | RuntimeError):
        return str(error)
    text, where = f"{type(error).__name__}: {error}", logs / f"traceback_{section.name}.txt"
    with contextlib.suppress(OSError):
        write_atomically(where, "".join(traceback.format_exception(error)))
        text += f" (traceback: {where})"
    return text


def _say(one: Concluded, said: dict[str, Verdict]) -> None:
    """Print what a section concluded; of verdicts that were `said`, those that are others now."""
    changed = [v for v in one.verdicts if v.name not in said or v.outcome is not said[v.name].outcome]
    if one.section is AUDIT:
        for line in claim_lines(one.lab.audit):
            say(line)
    elif one.choice is not None:
        _say_verdicts("Other by fresh pairs", [v for v in changed if v.name in said])
        for cause in causes_of(one.lab, one.choice):
            say(f"cause: {cause.text}")
        _say_verdicts(FINAL.title, [one.choice.verdict] if one.choice.verdict else [])
        for lost in remains(one.choice.remaining):
            say(f"with it: {lost}")
    elif one.moved:
        if one.section is BASELINE:
            shares = ", ".join(one.moved)
            say(f"later steps of the baseline show another share of {shares}: bounds that rested on it are gone")
        _say_verdicts(f"{one.section.title}, once more", changed)
    else:
        if one.fails:
            say(sentence(one.fails))
        _say_verdicts(one.section.title, one.verdicts)


def _say_verdicts(title: str, verdicts: Sequence[Verdict]) -> None:
    if verdicts:
        say(f"{title}:")
    for verdict in verdicts:
        node = f" (measured on node {verdict.node})" if verdict.node else ""
        mark, outcome = sign(verdict).split(" ", 1)
        say(f"  {mark} {verdict.title_in_list}: {outcome}, {effect(verdict.effect)}; {verdict.because}{node}")
