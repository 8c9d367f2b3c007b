"""`make cases`: diagnose the scaled-down siblings of the five reports, and write docs/cases.md.

What was measured stays in bench/results/cases.json, case by case, so that one can be measured by itself
(`python -m bench.cases --only case_002`) and the page be written without measuring (`python -m bench.cases --page`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slowstep.audit import Audit, audit
from slowstep.audit.terminal_lines import SIGNS as JUDGED
from slowstep.cli.main import main as slowstep
from slowstep.environment.machine import this_machine, versions
from slowstep.factors import comparison_family
from slowstep.investigation import ROOT
from slowstep.investigation.results import Summary
from slowstep.judgement.verdict import Verdict
from slowstep.measure.local import model_sizes
from slowstep.records import Store
from slowstep.records.store import write_atomically
from slowstep.report.chart import Table
from slowstep.report.tables import hypotheses
from slowstep.settings import LEVEL_SECTIONS, Settings, load
from slowstep.settings.convert import from_plain, to_plain
from slowstep.text.sentences import sentence

RESULTS = ROOT / "bench" / "results" / "cases.json"
PAGE = ROOT / "docs" / "cases.md"
HEAD = """# Five reports, audited

Made by `make cases`; not to be edited here. The reports are real investigations of slow training; their figures and
claims stand in `params/case_*.yaml`, and what follows comes from `make audit` and, on two cores, from `make diagnose`
over their scaled-down siblings. A small run on a CPU does not repeat a report's figures. It shows which of its claims
survive when the arms take turns, in a unit of equal work, with one change at a time.
"""


def main() -> int:
    """Measure the cases and write the page."""
    paths = {path.stem: path for path in sorted((ROOT / "params").glob("case_???.yaml"))}
    parser = argparse.ArgumentParser(prog="bench.cases", description=main.__doc__)
    parser.add_argument("--only", nargs="+", choices=paths, default=paths, help="measure these cases")
    parser.add_argument("--page", action="store_true", help="measure none, only write the page")
    asked = parser.parse_args()
    known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    for name in [] if asked.page else asked.only:
        known[name] = _measured(paths[name])
        write_atomically(RESULTS, json.dumps(known, indent=1) + "\n")
    write_atomically(PAGE, page(known))
    print(f"wrote {PAGE}")
    return 0


def _measured(path: Path) -> dict[str, Any]:
    """The verdicts on the sibling's levels, and the sizes of the report's own model."""
    sibling, settings = path.with_stem(f"{path.stem}_small"), load(path).settings
    if slowstep(["diagnose", str(sibling)]):
        sys.exit(f"{sibling.name} was not diagnosed to its end: its figures are not taken, those before stand")
    return {
        "machine": str(this_machine()),
        "versions": versions(),
        "date": datetime.now(UTC).date().isoformat(),
        "sizes": model_sizes(settings),
        "verdicts": to_plain(_verdicts(sibling.stem)),
    }


def page(known: Mapping[str, Any]) -> str:
    """The stories, from the audits and from what was measured."""
    parts = [HEAD.rstrip()]
    for name, case in known.items():
        settings = load(ROOT / "params" / f"{name}.yaml").settings
        verdicts = [from_plain(Verdict, v) for v in case["verdicts"]]
        where = f"{case['machine']}, torch {case['versions']['torch']}, {case['date']}"
        parts.append(_story(name, settings, audit(settings, case["sizes"] or None), verdicts, where))
    return "\n\n".join(parts) + "\n"


def _story(name: str, settings: Settings, found: Audit, verdicts: list[Verdict], where: str) -> str:
    claims = [
        {"claimed": c.claim.text, "the figures say": JUDGED[c.judgement], "because": sentence(c.reason)}
        for c in found.claims
    ]
    texts = {f"- *{f.kind}*, {f.where}: {sentence(f.text)}": None for f in found.beside}
    asked_for = [f"- {sentence(q)}" for q in found.first_questions]
    factors = {c.claim.factor for c in found.claims}
    asked = [v for v in verdicts if v.factor in factors] + [v for v in verdicts if v.factor not in factors]
    return "\n\n".join(
        [
            f"## {settings.reported.source[:1].upper()}{settings.reported.source[1:]}",
            f"`params/{name}.yaml`",
            Table(claims).markdown,
            "Found in the figures:\n\n" + "\n".join(texts),
            *(["To be asked:\n\n" + "\n".join(asked_for)] if asked_for else []),
            f"Measured on the scaled-down run (`params/{name}_small.yaml`; {where}):",
            hypotheses(asked).markdown,
            *_unmeasured(f"{name}_small", verdicts),
        ]
    )


def _unmeasured(name: str, verdicts: list[Verdict]) -> list[str]:
    """What the file lists and was not there when it was measured."""
    settings, known = load(ROOT / "params" / f"{name}.yaml").settings, {v.name for v in verdicts}
    listed = [c.name for section in LEVEL_SECTIONS for c in comparison_family(settings, section, this_machine())]
    missing = [f"`{name}`" for name in listed if name not in known]
    return [f"Listed there and not measured yet: {', '.join(missing)}."] if missing else []


def _verdicts(investigation: str) -> list[Verdict]:
    """Return the verdicts of all notebooks but the last, each change once."""
    store = Store(ROOT / "outputs" / investigation / "records")
    found: dict[str, Verdict] = {}
    for path in sorted((store.folder / "summaries").glob("[0-8]*.json")):
        summary = store.read(Summary, "summaries", path.stem)
        found |= {v.name: v for v in summary.verdicts} if summary and path.stem != "00_baseline" else {}
    return list(found.values())


if __name__ == "__main__":
    sys.exit(main())
