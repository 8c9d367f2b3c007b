"""Investigations: all of a parameter file measured, then drawn by the notebooks; or drawn from the records alone."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slowstep.batch.cleanup import forget_all_but, forget_unfinished, unusable_records
from slowstep.batch.concluding import conclude_again
from slowstep.batch.earlier_pages import MOVED, set_aside
from slowstep.batch.measuring import Concluded, measured
from slowstep.batch.notebook import NotebookInput, Teller, announce, path_of, run, up_to_date
from slowstep.batch.notebook_process import notebook_interpreter
from slowstep.environment.system_errors import explained
from slowstep.investigation import Unmeasurable
from slowstep.investigation.opening import read_investigation
from slowstep.investigation.results import INTERRUPTED, NotebookRun
from slowstep.investigation.sections_to_answer import sections_to_answer
from slowstep.measure.slurm.jobs import NoNode
from slowstep.processes.lock import locked
from slowstep.records import Store
from slowstep.report.index import write_index
from slowstep.settings import Loaded
from slowstep.settings.sections import AUDIT, BASELINE, OWN, SECTIONS, TESTED, Section
from slowstep_probe.processes.scratch import remove_abandoned_files, remove_abandoned_folders

KEPT = "the index keeps what was concluded before, since it can't be concluded again from its records"
"""What is told of a section whose conclusion stays as other code of the kit has drawn it."""


def diagnose(loaded: Loaded, overrides: Sequence[str], outputs: Path, tell: Teller) -> list[NotebookRun]:
    """Measure what a parameter file asks, and run every notebook over it; one that fails does not stop the others.

    The first notebook runs as soon as the baseline is measured, the others when there is nothing left to measure.
    """
    given = NotebookInput(loaded=loaded, overrides=overrides, folder=outputs / loaded.settings.name)
    with locked(given.folder):
        _tidy(given.folder)
        again = forget_unfinished(given.store, loaded.settings.budget.minutes)
        for line in unusable_records(given.folder):
            tell(line, None)
        asked = sections_to_answer(loaded.settings)
        gone = forget_all_but(asked, given.store)
        for section in gone:
            if section in TESTED and section.name != OWN:
                tell(f"{section.notebook}: nothing to try in this run", None)
        late = [section for section in asked if again or not up_to_date(path_of(section), given)]
        for section in (section for section in asked if section not in late):
            tell(f"{section.notebook}: up to date", None)
        moved = set_aside(given.folder, [section.notebook for section in gone], keep=Path(loaded.source))
        if announce([path_of(section) for section in late], given) or moved:
            tell(MOVED, None)
        if late:
            write_index(outputs, lambda line: tell(line, None))  # what it told is over
            _measured_and_drawn(late, given, outputs, tell)
        return [kept for s in asked if (kept := given.store.read(NotebookRun, "notebooks", s.notebook))]


@dataclass
class _Sections:
    """How far the sections of an investigation are while it is measured."""

    waiting: set[Section]
    """The sections whose notebooks have to run."""
    concluded: set[Section] = field(default_factory=set)
    failed: dict[Section, object] = field(default_factory=dict)
    """Why sections are not concluded."""

    def note(self, one: Concluded) -> None:
        """Note what came of a section."""
        self.waiting.add(one.section)
        if one.failed is None:
            self.concluded.add(one.section)
        else:
            self.concluded.discard(one.section)
            self.failed[one.section] = one.failed


def _measured_and_drawn(late: Collection[Section], given: NotebookInput, outputs: Path, tell: Teller) -> None:
    """Measure an investigation, and run the notebooks that are late, or that now say something else."""
    notebook_interpreter()  # it makes its imports while measuring begins
    sections = _Sections(set(late))
    steps = measured(late, given.loaded, outputs, lambda progress: tell(progress.notebook, progress))
    try:
        with contextlib.closing(steps):
            for one in steps:
                sections.note(one)
                if one.section is BASELINE and one.moved:
                    shares = ", ".join(one.moved)
                    tell(f"{BASELINE.notebook}: drawn again, for later steps show another share of {shares}", None)
                elif one.section is BASELINE:
                    run([path_of(BASELINE)], given, tell)
                    sections.waiting.remove(BASELINE)
                    write_index(outputs, lambda line: tell(line, None))
    except NoNode:  # no notebook would get one, either
        raise
    except Unmeasurable:  # all that rests on the baseline reads in its record why
        sections.concluded = {section for section in SECTIONS if section is not AUDIT}
        for section in sections.concluded:
            given.store.drop("summaries", section.notebook)
    except Exception as error:
        sections.failed |= {section: error for section in SECTIONS if section not in sections.concluded}
    _draw(sections, given, tell)


def _draw(sections: _Sections, given: NotebookInput, tell: Teller) -> None:
    """Run the notebooks that wait: together those that are concluded, then the others one by one, which measure."""
    in_order = [section for section in SECTIONS if section in sections.waiting]
    run([path_of(section) for section in in_order if section in sections.concluded], given, tell)
    for section in (section for section in in_order if section not in sections.concluded):
        given.store.drop("summaries", section.notebook)
        reason = sections.failed.get(section)
        said = f", since measuring ended: {explained(reason) if isinstance(reason, OSError) else reason}"
        # nodes have joined this process, and no other one can ask them
        here_alone = bool(given.loaded.settings.command and given.loaded.settings.command.nodes)
        how = "drawn from what was measured" if here_alone else "asked again by its own notebook"
        tell(f"{section.notebook}: {how}{said if reason else ''}", None)
        run([path_of(section)], given, tell, measure=not here_alone)


def audit(loaded: Loaded, overrides: Sequence[str], outputs: Path, tell: Teller) -> NotebookRun:
    """Run the notebook that audits reported figures, and no other."""
    given = NotebookInput(loaded=loaded, overrides=overrides, folder=outputs / loaded.settings.name)
    notebook = path_of(AUDIT)
    with locked(given.folder):
        _tidy(given.folder)
        if up_to_date(notebook, given):
            tell(f"{AUDIT.notebook}: up to date", None)
        else:
            announce([notebook], given)
            run([notebook], given, tell, measure=True)
        return given.store.read(NotebookRun, "notebooks", AUDIT.notebook)


def draw(folder: Path, tell: Teller, interactive: bool = True) -> list[NotebookRun]:
    """Draw the reports of an investigation again from its records, wherever those were measured.

    Reports that are not `interactive` hold drawings alone, and are small. NotMeasured if its folder doesn't say what
    was measured. A notebook that had not come to its end is drawn, and still counts as one to be finished.
    """
    notebook_interpreter()
    lab = read_investigation(folder)
    given = NotebookInput(loaded=lab.loaded, folder=folder, from_records=True, interactive=interactive)
    reported = lab.settings.reported
    names = reported.files if reported else ()
    gone = [name for name in names if not Path(name).is_file() or lab.settings.as_measured.differs(name)]
    if gone:
        why = f"{gone[0]} is not here, or is not known to be the file that was audited; audit it again"
        tell(f"{AUDIT.notebook}: its report stays as it is, since {why}", None)
    with locked(folder):
        asked = [s for s in sections_to_answer(lab.settings) if not gone or s is not AUDIT]
        drawn = [s for s in asked if _has_run(given.store, s) or s is AUDIT]
        for section in (s for s in asked if s not in drawn):
            stays = "; its report of before stays" if (folder / f"{section.notebook}.html").is_file() else ""
            tell(f"{section.notebook}: not drawn, since it has concluded nothing yet{stays}", None)
        for section, reason in conclude_again(folder, drawn).items():
            tell(f"{section.notebook}: {KEPT}: {reason}", None)
        return list(run([path_of(s) for s in drawn], given, tell).values())


def _has_run(store: Store, section: Section) -> bool:
    """Return whether there is something to draw for a section: its notebook's end, or what measuring it concluded."""
    run = store.read(NotebookRun, "notebooks", section.notebook)
    return store.path("summaries", section.notebook).is_file() or (run is not None and run.status != INTERRUPTED)


def _tidy(folder: Path) -> None:
    """Remove what killed runs left behind: their temporary folders, and half-written files."""
    remove_abandoned_folders()
    remove_abandoned_files(folder)
