"""`make validate`: run all parts, write the page and bench/results/validation.json, and renew README's table.

What was measured with the same sources is kept, so that a stopped validation goes on where it was; parts can be
named: `python -m bench.validation calibration price`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from bench import probe
from bench.validation import attribution, calibration, diagnosed, identical, page, prediction, price, table
from bench.validation.scenarios import Scenario, scenarios
from slowstep.investigation import ROOT
from slowstep.machine import this_machine, versions
from slowstep.records import identity
from slowstep.records.store import write_atomically
from slowstep.settings.convert import to_plain

OUTPUTS = ROOT / "outputs" / "validation"


def main(names: Sequence[str]) -> int:
    """Run the named parts, or all; the page needs all of them."""
    cases = scenarios()
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "planted": lambda: _diagnosed(cases["planted"]),
        "healthy": lambda: _diagnosed(cases["healthy"]),
        "price": lambda: _kept("price", _price),
        "aa": lambda: _kept("aa", lambda: identical.measure(cases["identical"], OUTPUTS), cases["identical"]),
        "prediction": lambda: _predicted(cases["jobs"]),
        "probe": lambda: _kept("probe", lambda: attribution.measure() | probe.cost()),
        "calibration": lambda: _kept("calibration", calibration.measure),
    }
    unknown = set(names) - parts.keys()
    if unknown:
        print(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(parts)}", file=sys.stderr)
        return 2
    os.environ.update(prediction.ENVIRONMENT)
    figures = {name: parts[name]() for name in names or parts}
    if set(figures) != set(parts):
        return 0
    figures["price"]["correctness"] = _correctness(figures["calibration"]["rows"])
    about = {
        "machine": to_plain(this_machine()),
        "versions": versions(),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
    }
    write_atomically(table.RESULTS, json.dumps(about | figures, indent=1) + "\n")
    page.write(about | figures, OUTPUTS / "index.html")
    table.renew()
    for row in page.summary(figures):
        print(f"{row['asked']}: {row['measured']} ({row['wanted']})")
    print(f"open {OUTPUTS / 'index.html'}")
    return 0


def _kept(name: str, measure: Callable[[], dict[str, Any]], cases: Sequence[Scenario] = ()) -> dict[str, Any]:
    """What was measured under `name`, with the date and the commit; measured now unless it was, of the same `cases`
    by the same sources."""
    path = OUTPUTS / "parts" / f"{name}.json"
    key = identity(_sources(name), [(c.data, c.cure) for c in cases], to_plain(this_machine()), versions())
    if path.is_file():
        known = json.loads(path.read_text(encoding="utf-8"))
        if known["key"] == key:
            return known["figures"]
    about = {"date": datetime.now(UTC).date().isoformat(), "commit": _commit()}
    figures = to_plain(measure()) | about
    write_atomically(path, json.dumps({"key": key, "figures": figures}, indent=1))
    return figures


def _sources(name: str) -> list[str]:
    """The files that a part's measurements rest on: what trains and times, and what asks for it. Scenarios are judged
    anew each time, from the records, so the code that judges is not among theirs."""
    part = name.partition("/")[0]
    own = {
        "probe": ["bench/probe.py", "bench/validation/attribution.py", "params/quick.yaml"],
        "calibration": ["bench/validation/processes.py", "lib/slowstep/judgement/*.py"],
        "prediction": ["bench/validation/bare.py", "bench/validation/prediction.py", "lib/slowstep/judgement/*.py"],
        "aa": ["bench/validation/identical.py", "lib/slowstep/judgement/*.py"],
        "price": ["params/quick.yaml", "lib/slowstep/judgement/*.py"],
        "scenarios": ["bench/validation/bare.py"],
    }[part]
    planted = ["bench/validation/planted.py"] if part in ("scenarios", "aa", "prediction") else []
    rooms = ("settings", "factors", "trials", "workloads") if part != "calibration" else ()  # nothing is trained there
    patterns = [*own, *planted, *(f"lib/slowstep/{room}/*.py" for room in rooms)]
    found = sorted({path for pattern in patterns for path in ROOT.glob(pattern)})
    return [identity(path.read_text(encoding="utf-8")) for path in found]


def _diagnosed(cases: Sequence[Scenario]) -> dict[str, Any]:
    rows = [_one(case) for case in cases]
    return {"correct": sum(r["correct"] for r in rows), "total": len(rows), "rows": rows}


def _one(case: Scenario) -> dict[str, Any]:
    """A scenario measured, if it was not, and judged."""
    params, outputs = OUTPUTS / "params", OUTPUTS / "diagnosed"
    path = case.write(params)

    def measure() -> dict[str, Any]:
        shutil.rmtree(outputs / case.name, ignore_errors=True)
        diagnosed.diagnose(path, outputs)
        return {"truth": diagnosed.truth(case, params) if case.cure else None}

    known = _kept(f"scenarios/{case.name}", measure, [case])
    diagnosed.diagnose(path, outputs)  # draws what is up to date from its records
    size = diagnosed.Truth(**known["truth"]) if known["truth"] else None
    scored = diagnosed.score(case, outputs, size)
    print(f"{case.name}: {scored.found} ({'right' if scored.correct else 'WRONG'}), {scored.seconds:.0f} s", flush=True)
    return to_plain(scored) | {"correct": scored.correct, "date": known["date"], "commit": known["commit"]}


def _predicted(cases: Sequence[Scenario]) -> dict[str, Any]:
    rows = []
    for case in cases:
        rows.append(_kept(f"prediction/{case.name}", partial(prediction.measure, case, OUTPUTS), [case]))
        print(f"prediction: {case.name}: {rows[-1]['error']} of {rows[-1]['trained, s']} s", flush=True)
    return {
        "within_5pct": sum(r["within"] for r in rows),
        "returned_within_5pct": sum(r["within, returned"] for r in rows),
        "total": len(rows),
        "rows": rows,
    }


def _price() -> dict[str, Any]:
    quick = ROOT / "params" / "quick.yaml"
    shutil.rmtree(OUTPUTS / "diagnosed" / quick.stem, ignore_errors=True)
    diagnosed.diagnose(quick, OUTPUTS / "diagnosed")
    return price.measure(quick, OUTPUTS / "diagnosed")


def _correctness(rows: Sequence[dict[str, Any]]) -> str:
    def worst(rule: str) -> str:
        own = [r for r in rows if r["rule"] == rule]
        false, power = max(r["false readings"] for r in own), min(r["power at +10%"] for r in own)
        return f"{false:.0%} false readings and {power:.0%} power at +10 %"

    return (
        f"In the worst regime of the calibration the grid's rule has {worst('one run each')}, the kit's has "
        f"{worst('slowstep')}."
    )


def _commit() -> str:
    """The commit, and whether what matters differs from it."""
    changed = _git("status", "--porcelain", "lib", "bench", "notebooks", "params")
    return _git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
