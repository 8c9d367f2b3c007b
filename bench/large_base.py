"""`python -m bench.large_base NAME`: a LoRA on a large frozen base with twelve levels, diagnosed as a whole.

Its minutes, its share of measured blocks and its verdicts are kept under NAME in bench/results/large_base.json, so that
another version of the library (by PYTHONPATH) can stand beside today's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PARAMS = ROOT / "bench" / "large_base.yaml"
RESULTS = ROOT / "bench" / "results" / "large_base.json"


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(prog="python -m bench.large_base", description=__doc__.splitlines()[0])
    parser.add_argument("name", help="what the figures are kept as")
    parser.add_argument("--at-most", type=float, default=60.0, metavar="MINUTES", help="after which it is stopped")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as outputs:
        found = measured(Path(outputs), 60 * given.at_most)
    known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    RESULTS.write_text(json.dumps(known | {given.name: found}, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))
    return 0


def measured(outputs: Path, seconds: float) -> dict[str, Any]:
    """Diagnose for at most so many seconds, and say what came of it; of a run that is stopped, what it had then."""
    began = time.monotonic()
    command = [sys.executable, "-m", "slowstep.cli", "diagnose", str(PARAMS), "--outputs", str(outputs)]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        status: int | None = run.wait(seconds)
    except subprocess.TimeoutExpired:
        run.terminate()
        run.wait()
        status = None
    took, folder = time.monotonic() - began, outputs / PARAMS.stem
    comparisons = list((folder / "records" / "comparisons").glob("*.json"))
    blocks = [b for path in comparisons for b in _blocks(json.loads(path.read_text(encoding="utf-8"))["record"])]
    found: dict[str, Any] = {
        "minutes": round(took / 60, 2),
        "status": "stopped" if status is None else status,
        "comparisons begun": len(comparisons),
        "pairs": len(blocks) // 2,
        "in measured blocks": round(sum(b["seconds"] for b in blocks) / took, 3),
    }
    summary = folder / "summary.json"
    if status == 0 and summary.is_file():
        said = json.loads(summary.read_text(encoding="utf-8"))
        found["outcomes"] = dict(Counter(h["outcome"] for h in said["hypotheses"]))
        found["verdicts"] = {h["name"]: h["outcome"] for h in said["hypotheses"]}
        found["answer"] = said["answer"]
    about = subprocess.run([sys.executable, "-c", ABOUT], capture_output=True, text=True, check=True).stdout
    return found | json.loads(about)


ABOUT = """
import json
from slowstep.environment.machine import this_machine, versions
from slowstep.settings.convert import to_plain
print(json.dumps({"machine": to_plain(this_machine()), "versions": versions()}))
"""


def _blocks(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [pair[arm] for pair in record["pairs"] for arm in ("baseline", "treatment")]


if __name__ == "__main__":
    raise SystemExit(main())
