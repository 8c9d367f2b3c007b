"""`slowstep diagnose` on every scenario, blind, and what its index says held against the truth."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from bench.validation.agreement import agree
from bench.validation.scenarios import Scenario
from bench.validation.truth import Truth
from slowstep.cli.main import main
from slowstep.investigation.results import NotebookRun
from slowstep.investigation.sections_to_answer import sections_to_answer
from slowstep.judgement.verdict import Outcome
from slowstep.records import ComparisonRecord, Store
from slowstep.report.read_overview import overview
from slowstep.settings.convert import from_plain
from slowstep.settings.load import validate

INTERRUPTED = 128
"""The exit status from which on a signal ended the command."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One scenario: what was to come out, what came out, and whether that is right."""

    name: str
    expected: str
    found: str
    named: bool
    """Whether the cause stands first in the index; for a healthy run, whether nothing does."""
    others: list[str]
    """Factors supported, and phases called unexplained, that neither are the cause nor follow from it."""
    size: tuple[float, float, float] | None = None
    """The gain that the kit states, with its interval, as ratios."""
    truth: Truth | None = None
    agrees: bool = True
    """Whether the two intervals of the size meet, and the two estimates are no further apart than `FAR`."""
    decided: int = 0
    """Changes that were supported or refuted; a run in which nothing is decided finds nothing and proves nothing."""
    seconds: float = 0.0
    """Spent on all comparisons, launches and warm-up included."""
    failed: list[str] = field(default_factory=list)

    @property
    def correct(self) -> bool:
        """Everything that is asked of it."""
        return self.named and not self.others and self.agrees and not self.failed and self.decided > 0


def diagnose(params: Path, outputs: Path, *overrides: str) -> None:
    """Diagnose as a user does: each notebook in processes of its own, which end with this one. Note what goes wrong."""
    changed = ["--set", *overrides] if overrides else []
    with contextlib.redirect_stdout(io.StringIO()):
        status = main(["diagnose", str(params), "--outputs", str(outputs), *changed])
    if status >= INTERRUPTED:
        sys.exit(status)  # ended by a signal, and so is the validation


def score(scenario: Scenario, outputs: Path, size: Truth | None) -> Scored:
    """Read the index as a user does: what stands first, what else is supported."""
    folder = outputs / scenario.name
    found = overview(folder)
    store = Store(folder / "records")
    stored = [
        store.read(ComparisonRecord, "comparisons", p.stem) for p in (store.folder / "comparisons").glob("*.json")
    ]
    records = [r for r in stored if r]
    first = found.causes[0] if found.causes else None
    supported = {v.factor for v in found.verdicts if v.outcome is Outcome.SUPPORTED}
    expected = scenario.factor or (f"unexplained: {scenario.phase}" if scenario.phase else "nothing")
    named = [c.factor or f"unexplained: {c.phase}" for c in found.causes]
    stated = first.size if first else None
    phase, by = scenario.admits or ("", "")
    if first and scenario.admits and named[0] == f"unexplained: {phase}" and by in first.text:
        expected = named[0]
    return Scored(
        name=scenario.name,
        expected=expected,
        found=named[0] if named else "nothing",
        named=(named or ["nothing"])[0] == expected,
        others=sorted((supported | set(named)) - {expected} - scenario.follows),
        size=stated,
        truth=size,
        agrees=agree(stated, size if expected != "nothing" else None),
        decided=sum(v.outcome in (Outcome.SUPPORTED, Outcome.REFUTED) for v in found.verdicts),
        seconds=sum(r.seconds for r in records),
        failed=[f"{n}: {why}" for n, why in _failures(found.runs, scenario).items()],
    )


def rescored(figures: Mapping[str, Any], size: Truth | None) -> Scored:
    """What was scored before, held against a size that is known better now."""
    names = {field.name for field in fields(Scored)}
    known = from_plain(Scored, {name: value for name, value in figures.items() if name in names} | {"truth": None})
    return replace(known, truth=size, agrees=agree(known.size, size if known.expected != "nothing" else None))


def _failures(runs: Sequence[NotebookRun], scenario: Scenario) -> dict[str, str]:
    """Notebooks that did not run to their end, those that never began included."""
    ended = {r.notebook: "" if r.status == "ok" else r.reason or r.status for r in runs}
    asked = [section.notebook for section in sections_to_answer(validate(scenario.data, scenario.name))]
    return {name: why for name in asked if (why := ended.get(name, "was not run"))}
