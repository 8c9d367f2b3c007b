"""The page outputs/index.html: what every investigation there says at one glance."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from slowstep.environment.system_errors import explained
from slowstep.factors import Meaning
from slowstep.judgement.verdict import Outcome
from slowstep.processes.lock import Busy
from slowstep.records.store import write_atomically
from slowstep.report import overview_charts as charts
from slowstep.report.actions import KINDS, what
from slowstep.report.html import environment, unbroken
from slowstep.report.overview import Overview
from slowstep.report.read_overview import overview
from slowstep.report.summary import write_summary
from slowstep.text.sentences import first_of
from slowstep.wording.words import effect, sign

NAMES = ("index.html", "slowstep_index.html")
"""The names that the page may have, in their order."""

MARK = "<title>slowstep"
"""The text by which a page is known as the kit's own."""

LOOKED_AT = 4096


def write_index(outputs: Path, tell: Callable[[str], object]) -> Path | None:
    """Write the index of everything under `outputs` and return its path. Folders without notebook runs are left out.

    The one whose notebooks concluded last stands first. Each folder gets its summary as well. A page of somebody else's
    that has the name of the index is left alone, and the index has another name there. What can't be read or written,
    since others share the folder, is left out: `tell` gets a line on it. None if the index itself can't be written.
    """
    try:
        folders = sorted(sorted(outputs.iterdir()), key=_last_concluded, reverse=True)
        overviews = [found for folder in folders if (found := _summarised(folder, tell))]
        path = next(outputs / name for name in NAMES if not _is_foreign(outputs / name))
        write_atomically(path, page(overviews))
    except OSError as error:
        tell(f"no index was written: {explained(error)}")
        return None
    return path


def _last_concluded(folder: Path) -> float:
    """Return when a notebook of an investigation last concluded something, in seconds since 1970; 0 if none did."""
    times = [0.0]
    with contextlib.suppress(OSError):
        times += [record.stat().st_mtime for record in (folder / "records" / "notebooks").iterdir()]
    return max(times)


def _summarised(folder: Path, tell: Callable[[str], object]) -> Overview | None:
    """Write the summary of an investigation if that is allowed, and return what it says.

    None if the folder is none of an investigation, or can't be read.
    """
    try:
        if not (folder / "records" / "notebooks").is_dir():
            return None
        found = overview(folder)
    except (OSError, Busy) as error:
        why = explained(error) if isinstance(error, OSError) else error
        tell(f"{folder.name} is not in the index: {why}")
        return None
    try:
        write_summary(folder, found)
    except OSError as error:
        tell(f"{folder.name} got no new summary: {explained(error)}")
    return found


def page(overviews: list[Overview]) -> str:
    """Return the index as HTML. It holds no script, and fetches nothing."""
    template = environment().get_template("index_page.html.j2")
    html = template.render(
        overviews=overviews,
        charts=charts,
        outcomes=Outcome,
        diagnostic=Meaning.DIAGNOSTIC,
        sign=sign,
        kinds=KINDS,
        effect=effect,
        what=what,
        first_of=first_of,
    )
    return unbroken(html)


def _is_foreign(path: Path) -> bool:
    """Return whether there is a page that is no index of the kit's."""
    if not path.is_file() or path.name == NAMES[-1]:
        return False
    with path.open(encoding="utf-8", errors="replace") as found:
        return MARK not in found.read(LOOKED_AT)
