"""Notebooks over one parameter file: which are up to date, their runs, their reports."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slowstep import __version__
from slowstep.batch.earlier_pages import set_aside
from slowstep.batch.notebook_process import NotebookProcess
from slowstep.environment.machine import this_machine, versions
from slowstep.environment.own_code import own_code
from slowstep.investigation.results import INTERRUPTED, NotebookRun, PlanRun, drawn_at_once
from slowstep.measure.progress import Progress
from slowstep.records import Store, identity
from slowstep.report.html import render
from slowstep.settings import Loaded, Settings
from slowstep.settings.local_files import content_of
from slowstep.settings.sections import Section

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
"""The notebooks. In a clone this is a link to its notebooks/; an installed package holds them."""

POLL_SECONDS = 0.05

Teller = Callable[[str, Progress | None], None]
"""A function that is told a line, or the name of a notebook with the progress of its comparison."""


def path_of(section: Section) -> Path:
    """Return the notebook of a section."""
    return NOTEBOOKS / f"{section.notebook}.ipynb"


@dataclass(frozen=True, kw_only=True)
class NotebookInput:
    """The input of notebooks: a parameter file with overrides, or the records of an investigation alone."""

    loaded: Loaded
    folder: Path
    """The investigation's folder."""
    overrides: Sequence[str] = ()
    from_records: bool = False
    """True if only reports are drawn: the settings, too, are read from the records, and the runs keep their times."""
    interactive: bool = True
    """False if the reports hold drawings alone."""

    @property
    def store(self) -> Store:
        """The records of the investigation."""
        return Store(self.folder / "records")

    def parameters(self, measure: bool) -> dict[str, object]:
        """Return the parameters that a notebook gets, by name."""
        source = self.folder if self.from_records else Path(self.loaded.source)
        return {
            "params": str(source.resolve()),
            "overrides": list(self.overrides),
            "outputs": str(self.folder.parent.resolve()),
            "measure": measure,
        }


def up_to_date(notebook: Path, given: NotebookInput) -> bool:
    """Return whether a notebook has run to its end, and nothing has changed since on which its report depends."""
    done = given.store.read(NotebookRun, "notebooks", notebook.stem)
    ended = done is not None and done.status == "ok" and (given.folder / done.report).is_file()
    return ended and done.determinants == _determinants(notebook, given.loaded.settings)


def announce(notebooks: Sequence[Path], given: NotebookInput) -> bool:
    """Keep of notebooks that they are to run, in case that they never come to their end.

    What they concluded for another run, or by other code, is over, and what they drew makes way. Return whether there
    was any of that.
    """
    moved = False
    for notebook in notebooks:
        name, depends = notebook.stem, _determinants(notebook, given.loaded.settings)
        known = given.store.read(NotebookRun, "notebooks", name)
        if known is None or known.determinants != depends:
            given.store.drop("summaries", name)
            moved |= set_aside(given.folder, [name], keep=Path(given.loaded.source))
        waiting = NotebookRun(notebook=name, status=INTERRUPTED, determinants=depends, machine=str(this_machine()))
        given.store.write(waiting, "notebooks", name)
    return moved


def run(notebooks: Sequence[Path], given: NotebookInput, tell: Teller, measure: bool = False) -> dict[str, NotebookRun]:
    """Run notebooks and write their reports; return their runs by name. One that fails does not stop the others.

    Without `measure` they read what was measured, and run beside each other.
    """
    waiting, running, ended = list(notebooks), [], {}
    began = time.monotonic()
    try:
        while waiting or running:
            while waiting and len(running) < (1 if measure else drawn_at_once()):
                running.append(_Running(waiting.pop(0), given, measure))
                tell(f"{running[-1].notebook.stem} is {'run' if measure else 'drawn'}", None)
            for one in [r for r in running if not r.process.alive]:
                running.remove(one)
                ended[one.notebook.stem] = made = one.ended()
                reason = f": {made.reason}" if made.reason else ""
                drawn = "" if given.from_records else f", drawn in {made.seconds:.0f} s"
                tell(f"{made.notebook}: {made.status}{drawn if made.status == 'ok' else reason}", None)
            if running:
                time.sleep(POLL_SECONDS)
    finally:
        for one in running:
            one.process.end()
    if given.from_records or measure:
        return ended
    each = (time.monotonic() - began) / max(len(ended), 1)  # they ran beside each other
    return {name: _kept(name, replace(made, seconds=each), given) for name, made in ended.items()}


def _kept(name: str, run: NotebookRun, given: NotebookInput) -> NotebookRun:
    """Keep the run of the notebook of that name, whatever name the record had that it was made of."""
    given.store.write(named := replace(run, notebook=name), "notebooks", name)
    return named


class _Running:
    """A notebook that runs."""

    def __init__(self, notebook: Path, given: NotebookInput, measure: bool):
        self.notebook, self.given, self.measure = notebook, given, measure
        self.began, self.measured_before = time.monotonic(), self._measured()
        target = given.folder / notebook.name
        self.process = NotebookProcess(notebook, target, given.parameters(measure))

    def ended(self) -> NotebookRun:
        """Return the notebook's run with its report, now that its process has ended; keep it."""
        name, store = self.notebook.stem, self.given.store
        reason = self.process.end()
        known = store.read(NotebookRun, "notebooks", name) or NotebookRun(notebook=name, status=INTERRUPTED)
        drawn = self._drawn(replace(known, status="failed" if reason else "ok", reason=reason))
        if not self.given.from_records:
            itself = self._measured() - self.measured_before if self.measure else 0.0
            drawn = replace(drawn, seconds=max(0.0, time.monotonic() - self.began - itself))
        elif known.status != "ok":  # it still is to be run over its parameter file
            drawn = replace(drawn, determinants="")
        return _kept(name, drawn, self.given)

    def _measured(self) -> float:
        """Return the seconds in which questions of notebooks were measured; while one measures, no other does."""
        return sum(spent.seconds for spent in self.given.store.every(PlanRun, "spent"))

    def _drawn(self, run: NotebookRun) -> NotebookRun:
        """Write the HTML of the executed notebook, and return its run with what came of that."""
        given, name = self.given, self.notebook.stem
        try:
            title, about = _title(self.notebook), given.loaded.settings.name
            source, page = given.folder / f"{name}.ipynb", given.folder / f"{name}.html"
            render(source, page, title, about, run.reason, given.interactive)
            return replace(run, report=f"{name}.html")
        except Exception as error:  # a report that can't be drawn must not cost the others theirs
            return replace(run, status="failed", reason=run.reason or f"its report can't be drawn: {error}")


def _determinants(notebook: Path, settings: Settings) -> str:
    """Return the identity of all that a notebook's run depends on."""
    return identity(
        settings,
        settings.local_content(),
        content_of(settings.reported.files if settings.reported else ()),
        notebook.read_text(encoding="utf-8"),
        __version__,
        this_machine(),
        versions(),
        own_code(),  # changed code runs its notebooks again, on the same records
    )


def _title(notebook: Path) -> str:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "".join(cells[0]["source"]).splitlines()[0].lstrip("# ")
