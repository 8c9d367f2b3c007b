"""`make validate`: run all parts, write the page and bench/results/validation.json, and renew README's table.

A part that was measured with the same sources is kept, so that a stopped validation goes on where it was; parts can be
named: `python -m bench.validation calibration price`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
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
RESULTS = ROOT / "bench" / "results" / "validation.json"


def main(names: Sequence[str]) -> int:
    """Run the named parts, or all; the page needs all of them."""
    cases = scenarios()
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "planted": lambda: _diagnosed(cases["planted"]),
        "healthy": lambda: _diagnosed(cases["healthy"]),
        "price": _price,
        "aa": lambda: identical.measure(cases["identical"], OUTPUTS),
        "prediction": lambda: prediction.measure(cases["jobs"], OUTPUTS),
        "probe": lambda: attribution.measure() | probe.cost(),
        "calibration": calibration.measure,
    }
    unknown = set(names) - parts.keys()
    if unknown:
        print(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(parts)}", file=sys.stderr)
        return 2
    figures = {name: _kept(name, parts[name]) for name in names or parts}
    if set(figures) != set(parts):
        return 0
    figures["price"]["correctness"] = _correctness(figures["calibration"]["rows"])
    about = {
        "machine": to_plain(this_machine()),
        "versions": versions(),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _git("rev-parse", "--short", "HEAD")
        + ("" if not _git("status", "--porcelain", "lib") else " changed"),
    }
    write_atomically(RESULTS, json.dumps(about | figures, indent=1) + "\n")
    page.write(about | figures, OUTPUTS / "index.html")
    table.renew()
    for row in page.summary(figures):
        print(f"{row['asked']}: {row['measured']} ({row['wanted']})")
    print(f"open {OUTPUTS / 'index.html'}")
    return 0


def _kept(name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The figures of a part, measured unless they were, by the same sources on the same machine."""
    path = OUTPUTS / "parts" / f"{name}.json"
    key = identity(_sources(name), to_plain(this_machine()), versions())
    if path.is_file():
        known = json.loads(path.read_text(encoding="utf-8"))
        if known["key"] == key:
            return known["figures"]
    figures = to_plain(measure())
    write_atomically(path, json.dumps({"key": key, "figures": figures}, indent=1))
    return figures


def _sources(name: str) -> list[str]:
    """What a part's figures rest on: the library, the notebooks, and the files that measure it."""
    own = {"probe": ["probe.py", "validation/attribution.py"], "calibration": ["validation/processes.py"]}
    own |= {"prediction": ["validation/bare.py"], "aa": ["validation/identical.py"], "price": ["../params/quick.yaml"]}
    scenes = ["validation/scenarios.yaml", "validation/planted.py"]
    used = own.get(name, ["validation/diagnosed.py", "validation/bare.py"])
    used = used + ([] if name in ("probe", "calibration", "price") else scenes) + [f"validation/{name}.py"]
    found = [*ROOT.glob("lib/slowstep/**/*.py"), *ROOT.glob("notebooks/*.ipynb")]
    found += [p for p in (ROOT / "bench" / u for u in used) if p.is_file()]
    return [identity(p.read_text(encoding="utf-8")) for p in sorted(found)]


def _diagnosed(cases: Sequence[Scenario]) -> dict[str, Any]:
    rows = [_kept(f"scenarios/{case.name}", lambda case=case: _one(case)) for case in cases]
    return {"correct": sum(r["correct"] for r in rows), "total": len(rows), "rows": rows}


def _one(case: Scenario) -> dict[str, Any]:
    params, outputs = OUTPUTS / "params", OUTPUTS / "diagnosed"
    diagnosed.diagnose(case.write(params), outputs)
    size = diagnosed.truth(case, params) if case.cure else None
    scored = diagnosed.score(case, outputs, size)
    print(f"{case.name}: {scored.found} ({'right' if scored.correct else 'WRONG'}), {scored.seconds:.0f} s", flush=True)
    return to_plain(scored) | {"correct": scored.correct}


def _price() -> dict[str, Any]:
    quick = ROOT / "params" / "quick.yaml"
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


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
