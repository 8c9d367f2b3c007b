"""Investigations: all notebooks over one parameter file, and over the records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slowstep.batch.cleanup import forget_failures, unusable_records
from slowstep.batch.notebook import NOTEBOOKS, Given, Teller, draw_again, notebooks, run
from slowstep.investigation.corrections import contradictions, refuted_by_bound
from slowstep.investigation.lab import PLAN
from slowstep.investigation.opening import pursue_plan, read_investigation
from slowstep.investigation.results import NotebookRun
from slowstep.processes.lock import locked
from slowstep.records import Store
from slowstep.settings import Loaded
from slowstep.settings.sections import AUDIT, BASELINE, OWN, SECTIONS, TESTED
from slowstep_probe.processes.scratch import remove_abandoned_files, remove_abandoned_folders


def diagnose(loaded: Loaded, overrides: Sequence[str], outputs: Path, tell: Teller) -> list[NotebookRun]:
    """Run every notebook over one parameter file; one that fails does not stop the others."""
    given = Given(loaded=loaded, overrides=overrides, folder=outputs / loaded.settings.name)
    with locked(given.folder):
        _tidy(given.folder)
        store = Store(given.folder / "records")
        again = forget_failures(store)
        for line in unusable_records(given.folder):
            tell(line, None)
        runs, asked = {}, notebooks(loaded.settings)
        names = {notebook.stem for notebook in asked}
        for section in (section for section in SECTIONS if section.notebook not in names):
            store.drop("summaries", section.notebook)  # what an earlier run concluded there is over
            store.drop("notebooks", section.notebook)
            if section in TESTED and section.name != OWN:
                tell(f"{section.notebook}: nothing to try in this run", None)
        for notebook in asked:
            runs[notebook.stem] = run(notebook, given, tell, again)
            if notebook.stem == BASELINE.notebook:
                spent = pursue_plan(loaded, outputs, lambda progress: tell(PLAN, progress))
                if spent is not None:
                    tell(f"{PLAN}: {spent.seconds:.0f} s", None)
        moved = contradictions(given.folder)
        if moved:
            shares = ", ".join(moved)
            tell(
                f"{BASELINE.notebook}: drawn again, since later steps of the baseline show another share of {shares}",
                None,
            )
            for name in (BASELINE.notebook, *refuted_by_bound(given.folder)):
                runs[name] = run(NOTEBOOKS / f"{name}.ipynb", given, tell, again=True)
        return list(runs.values())


def audit(loaded: Loaded, overrides: Sequence[str], outputs: Path, tell: Teller) -> NotebookRun:
    """Run the notebook that audits reported figures, and no other."""
    given = Given(loaded=loaded, overrides=overrides, folder=outputs / loaded.settings.name)
    with locked(given.folder):
        _tidy(given.folder)
        return run(NOTEBOOKS / f"{AUDIT.notebook}.ipynb", given, tell)


def draw(folder: Path, tell: Teller, interactive: bool = True) -> list[NotebookRun]:
    """Draw the reports of an investigation again from its records, wherever those were measured.

    Reports that are not `interactive` hold drawings alone, and are small. NotMeasured if its folder doesn't say what
    was measured.
    """
    lab = read_investigation(folder)
    given = Given(loaded=lab.loaded, folder=folder, read_only=True, interactive=interactive)
    reported = lab.settings.reported
    gone = [name for name in (reported.files if reported else ()) if not Path(name).is_file()]
    if gone:
        tell(f"{AUDIT.notebook}: its report stays as it is, since {gone[0]} is not here", None)
    store = Store(folder / "records")
    with locked(folder):
        concluded = [n for n in notebooks(lab.settings) if _has_run(store, n.stem) or n.stem == AUDIT.notebook]
        return [draw_again(n, given, tell) for n in concluded if not gone or n.stem != AUDIT.notebook]


def _has_run(store: Store, notebook: str) -> bool:
    """Return whether there is something to draw for a notebook: its run, or what measuring without it concluded."""
    return any(store.path(kind, notebook).is_file() for kind in ("notebooks", "summaries"))


def _tidy(folder: Path) -> None:
    """Remove what killed runs left behind: their temporary folders, and half-written files."""
    remove_abandoned_folders()
    remove_abandoned_files(folder)
