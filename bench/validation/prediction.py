"""The time of a whole job as a diagnosis projects it, against the same job trained to its end without the kit."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from bench.validation import diagnosed
from bench.validation.scenarios import Scenario
from slowstep.investigation import ROOT, read_investigation
from slowstep.launch import environment as of_trials

TOLERANCE = 0.05
PAIRS = 12
"""The pairs of the baseline with itself: more than a verdict needs, since a speed is asked for and not a change."""

ENVIRONMENT = {
    # both sides compile from nothing: a cache that one leaves would make the other another run
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT / "lib"), str(ROOT)]),  # this checkout's, whatever is installed
}
"""Set before the first trial of a process, since trials have the environment of the interpreter that forks them."""


def measure(case: Scenario, folder: Path) -> dict[str, Any]:
    """Train the job, diagnose it, train it again: a machine that grows slower misleads neither.

    It is projected as the final report does that, which knows the run's speed at the moments of all comparisons. The
    job is trained with freed memory kept, as it is projected, and returned, as by a script that leaves it to glibc.
    """
    params = case.write(folder / "params")
    shutil.rmtree(folder / "projected" / case.name, ignore_errors=True)
    trained: dict[str, list[dict[str, float]]] = {"kept": [], "returned": []}

    def train(*ways: str) -> None:
        for way in ways:
            trained[way].append(_trained(params, way))

    train("returned", "kept")
    diagnosed.diagnose(params, folder / "projected", f"budget.noise_pairs={PAIRS}")
    projected = read_investigation(folder / "projected" / case.name).baseline.projection
    train("kept", "returned")
    seconds = {way: mean(t["seconds"] for t in runs) for way, runs in trained.items()}
    errors = {way: projected.seconds / s - 1 for way, s in seconds.items()}
    return {
        "job": case.name,
        "projected, s": round(projected.seconds, 1),
        "interval, s": f"{projected.low:.1f} to {projected.high:.1f}",
        "drift, %": [round(100 * math.expm1(offset), 1) for offset in projected.drift.offsets],
        "trained, s": round(seconds["kept"], 1),
        "before and after, s": _both(trained["kept"]),
        "error": f"{errors['kept']:+.1%}",
        "within the interval": projected.low <= seconds["kept"] <= projected.high,
        "with memory returned, s": _both(trained["returned"]),
        "error then": f"{errors['returned']:+.1%}",
        "steps projected": projected.steps,
        "steps trained": trained["kept"][0]["steps"],
        "parts, s": {k: round(v, 1) for k, v in projected.parts.items()},
        "within": abs(errors["kept"]) <= TOLERANCE,
        "within, returned": abs(errors["returned"]) <= TOLERANCE,
    }


def _trained(params: Path, freed_memory: str) -> dict[str, float]:
    """Seconds from the start of the interpreter to the end of training, and the steps; in the user's environment."""
    began = time.time()
    command = [sys.executable, "-m", "bench.validation.bare", str(params), freed_memory]
    environment = {name: value for name, value in os.environ.items() if name not in of_trials.ENVIRONMENT}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return {"seconds": said["ended"] - began, "steps": said["steps"]}


def _both(runs: Sequence[dict[str, float]]) -> str:
    return ", ".join(f"{run['seconds']:.1f}" for run in runs)
