"""The page outputs/index.html: what every investigation there says at one glance."""

from __future__ import annotations

from pathlib import Path

from slowstep.factors import Meaning
from slowstep.judgement.verdict import Outcome
from slowstep.records.store import write_atomically
from slowstep.report import overview_charts as charts
from slowstep.report.html import environment, unbroken
from slowstep.report.overview import KINDS, Overview, overview, what
from slowstep.report.summary import write_summary
from slowstep.wording.words import SIGNS, effect

NAMES = ("index.html", "slowstep_index.html")
"""The names that the page may have, in their order."""

MARK = "<title>slowstep"
"""The text by which a page is known as the kit's own."""

LOOKED_AT = 4096


def write_index(outputs: Path) -> Path:
    """Write the index of everything under `outputs` and return its path. Folders without notebook runs are left out.

    Each folder gets its summary as well. A page of somebody else's that has the name of the index is left alone, and
    the index has another name there.
    """
    folders = sorted(p for p in outputs.iterdir() if (p / "records" / "notebooks").is_dir())
    overviews = [overview(folder) for folder in folders]
    for folder, one in zip(folders, overviews, strict=True):
        write_summary(folder, one)
    path = next(outputs / name for name in NAMES if not _is_foreign(outputs / name))
    write_atomically(path, page(overviews))
    return path


def page(overviews: list[Overview]) -> str:
    """Return the index as HTML. It holds no script, and fetches nothing."""
    template = environment().get_template("index_page.html.j2")
    html = template.render(
        overviews=overviews,
        charts=charts,
        outcomes=Outcome,
        diagnostic=Meaning.DIAGNOSTIC,
        signs=SIGNS,
        kinds=KINDS,
        effect=effect,
        what=what,
    )
    return unbroken(html)


def _is_foreign(path: Path) -> bool:
    """Return whether there is a page that is no index of the kit's."""
    if not path.is_file() or path.name == NAMES[-1]:
        return False
    with path.open(encoding="utf-8", errors="replace") as found:
        return MARK not in found.read(LOOKED_AT)
