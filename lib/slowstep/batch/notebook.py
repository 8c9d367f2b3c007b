"""One notebook over a parameter file: whether it is up to date, its run, its report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slowstep import __version__
from slowstep.batch.notebook_process import execute
from slowstep.environment.machine import this_machine, versions
from slowstep.factors import plan
from slowstep.investigation.results import NotebookRun, Summary
from slowstep.measure.progress import Progress
from slowstep.records import Store, identity
from slowstep.report.html import render
from slowstep.settings import Loaded, Settings
from slowstep.settings.schema import content_of
from slowstep.settings.sections import AUDIT, OWN, SECTIONS, Section

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
"""The notebooks. In a clone this is a link to its notebooks/; an installed package holds them."""

Teller = Callable[[str, Progress | None], None]
"""A function that is told a line, or the name of a notebook with the progress of its comparison."""


def notebooks(settings: Settings | None = None) -> list[Path]:
    """Return the kit's notebooks in their order; if `settings` are given, those that run over them."""
    asked = [section for section in SECTIONS if settings is None or _has_question(section, settings)]
    return [NOTEBOOKS / f"{section.notebook}.ipynb" for section in asked]


def _has_question(section: Section, settings: Settings) -> bool:
    """Return whether a parameter file asks what a notebook answers."""
    if section is AUDIT:
        return settings.reported is not None
    if settings.command is None or not section.name:
        return section.name != OWN
    return (section.searches_batch and settings.budget.find_batch) or bool(plan(settings, section.name, this_machine()))


@dataclass(frozen=True, kw_only=True)
class Given:
    """The input of notebooks: a parameter file with overrides, or the records of an investigation alone."""

    loaded: Loaded
    folder: Path
    """The investigation's folder."""
    overrides: Sequence[str] = ()
    read_only: bool = False
    """True if nothing is measured, and no local file but the records is looked at."""
    interactive: bool = True
    """False if the reports hold drawings alone."""

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that a notebook gets, by name."""
        source = self.folder if self.read_only else Path(self.loaded.source)
        return {
            "params": str(source.resolve()),
            "overrides": list(self.overrides),
            "outputs": str(self.folder.parent.resolve()),
        }


def run(notebook: Path, given: Given, tell: Teller, again: bool = False) -> NotebookRun:
    """Run one notebook and return its run. One that is up to date runs only with `again`."""
    name, folder, store = notebook.stem, given.folder, Store(given.folder / "records")
    depends = _determinants(notebook, given.loaded.settings)
    done = store.read(NotebookRun, "notebooks", name)
    if not again and done and done.status == "ok" and done.determinants == depends and (folder / done.report).is_file():
        tell(f"{name}: up to date", None)
        return done
    began = time.monotonic()
    store.drop("summaries", name)  # of an earlier run, with other settings perhaps
    started = NotebookRun(notebook=name, status="interrupted", determinants=depends, machine=str(this_machine()))
    store.write(started, "notebooks", name)
    reason = execute(notebook, folder / f"{name}.ipynb", given.parameters, tell)
    summary = store.read(Summary, "summaries", name)
    ended = replace(
        draw(notebook, given, started, reason),
        measured_seconds=summary.measured_seconds if summary and not reason else 0.0,
        seconds=time.monotonic() - began,
    )
    store.write(ended, "notebooks", name)
    tell(f"{name}: {ended.status} after {ended.seconds:.0f} s" + (f": {ended.reason}" if ended.reason else ""), None)
    return ended


def draw_again(notebook: Path, given: Given, tell: Teller) -> NotebookRun:
    """Run a notebook over the records alone, and return its run. What is known of its measuring is kept.

    A run that had not come to its end is drawn, and still counts as one to be finished.
    """
    name, store = notebook.stem, Store(given.folder / "records")
    known = store.read(NotebookRun, "notebooks", name) or NotebookRun(notebook=name, status="interrupted")
    if known.status != "ok":
        known = replace(known, determinants="")
    reason = execute(notebook, given.folder / f"{name}.ipynb", given.parameters, tell)
    drawn = draw(notebook, given, known, reason)
    store.write(drawn, "notebooks", name)
    tell(f"{name}: {drawn.status}" + (f": {drawn.reason}" if drawn.reason else ""), None)
    return drawn


def draw(notebook: Path, given: Given, run: NotebookRun, reason: str) -> NotebookRun:
    """Write the HTML of an executed notebook, and return its run with what came of that."""
    name, executed = notebook.stem, given.folder / f"{notebook.stem}.ipynb"
    ended = replace(run, status="failed" if reason else "ok", reason=reason)
    try:
        title = f"{given.loaded.settings.name}: {_title(notebook)}"
        render(executed, given.folder / f"{name}.html", title, reason, given.interactive)
        return replace(ended, report=f"{name}.html")
    except Exception as error:  # a report that can't be drawn must not cost the others theirs
        return replace(ended, status="failed", reason=reason or f"its report can't be drawn: {error}")


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
        _sources(),
    )


def _sources() -> str:
    """Return the identity of the library's own code: changed code runs its notebooks again, on the same records."""
    library = Path(__file__).parents[1]
    files = sorted(path for folder in (library, library.with_name("slowstep_probe")) for path in folder.rglob("*"))
    return identity([p.read_bytes().hex() for p in files if p.suffix in (".py", ".j2", ".css")])


def _title(notebook: Path) -> str:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "".join(cells[0]["source"]).splitlines()[0].lstrip("# ")
