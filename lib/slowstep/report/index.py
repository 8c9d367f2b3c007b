"""The page outputs/index.html: an overview of every investigation there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slowstep.investigation.results import NotebookRun, Summary
from slowstep.judgement.verdict import Verdict, reconsidered
from slowstep.records import Store
from slowstep.records.store import write_atomically
from slowstep.report.html import environment, unbroken
from slowstep.settings.sections import AUDIT, BASELINE, FINAL
from slowstep.wording.causes import Cause, causes
from slowstep.wording.words import SIGNS, duration, effect

NAMES = ("index.html", "slowstep_index.html")
"""The names that the page may have, in their order."""

MARK = "<title>slowstep"
"""The text by which a page is known as the kit's own."""

LOOKED_AT = 4096


@dataclass(frozen=True, kw_only=True)
class Overview:
    """An entry of the index: one investigation."""

    name: str
    runs: Sequence[NotebookRun]
    verdicts: Sequence[Verdict]
    causes: Sequence[Cause]
    headline: str
    """A sentence on the phase that takes most of the time, for a run without a cause."""
    gain: str
    decision: str | None
    machine: str
    trained: bool
    """True if any of its notebooks trains. The audit of reported figures does not."""


def write_index(outputs: Path) -> Path:
    """Write the index of everything under `outputs` and return its path. Folders without notebook runs are left out.

    A page of somebody else's that has the name is left alone, and the index has another name there.
    """
    folders = sorted(p for p in outputs.iterdir() if (p / "records" / "notebooks").is_dir())
    page = environment().get_template("index_page.html.j2")
    html = page.render(overviews=[overview(f) for f in folders], signs=SIGNS, effect=effect, duration=duration)
    path = next(outputs / name for name in NAMES if not _is_foreign(outputs / name))
    write_atomically(path, unbroken(html))
    return path


def _is_foreign(path: Path) -> bool:
    """Return whether there is a page that is no index of the kit's."""
    if not path.is_file() or path.name == NAMES[-1]:
        return False
    with path.open(encoding="utf-8", errors="replace") as page:
        return MARK not in page.read(LOOKED_AT)


def overview(folder: Path) -> Overview:
    """Return the entry of one investigation from its records."""
    store = Store(folder / "records")
    runs = store.every(NotebookRun, "notebooks")
    summaries = {s.notebook: s for s in store.every(Summary, "summaries")}
    final = summaries.get(FINAL.notebook)
    verdicts: dict[str, Verdict] = {}
    for name in sorted(summaries):
        verdicts |= {v.name: v for v in summaries[name].verdicts if name != FINAL.notebook or v.name not in verdicts}
    known = reconsidered(list(verdicts.values()), final.verdicts if final else [])
    adopted = final.adopted if final else None
    baseline = summaries.get(BASELINE.notebook)
    return Overview(
        name=folder.name,
        runs=runs,
        verdicts=sorted(known, key=lambda v: (list(SIGNS).index(v.outcome), -v.gain)),
        causes=causes(known, baseline.suspects, baseline.minimum_effect) if baseline else [],
        headline=baseline.cause if baseline else "",
        gain=f"{adopted.shown}: {effect(adopted.effect)}" if adopted else "no configuration was shown to be faster",
        decision=f"{folder.name}/final/decision.md" if (folder / "final" / "decision.md").is_file() else None,
        machine=next((r.machine for r in runs if r.machine), ""),
        trained=any(r.notebook != AUDIT.notebook for r in runs),
    )
