"""The projected time of a whole job against the same job really trained to its end, without the kit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.validation.scenarios import Scenario
from slowstep.investigation import ROOT, open_investigation
from slowstep.trials import process

TOLERANCE = 0.05
PAIRS = 12
"""Of the baseline with itself: more than a verdict needs, since a speed is asked for and not a change."""


def measure(case: Scenario, folder: Path) -> dict[str, Any]:
    """Train the job, project it from short trials, train it again: a machine that grows slower misleads neither."""
    params = case.write(folder / "params")
    shutil.rmtree(folder / "projected" / case.name, ignore_errors=True)
    before = _trained(params)
    inv = open_investigation(str(params), [f"budget.noise_pairs={PAIRS}"], outputs=str(folder / "projected"))
    projected = inv.baseline.projection
    inv.close()
    after = _trained(params)
    real = {key: (before[key] + after[key]) / 2 for key in before}
    error = projected.seconds / real["seconds"] - 1
    return {
        "job": case.name,
        "projected, s": round(projected.seconds, 1),
        "interval, s": f"{projected.low:.1f} to {projected.high:.1f}",
        "trained, s": round(real["seconds"], 1),
        "before and after, s": f"{before['seconds']:.1f}, {after['seconds']:.1f}",
        "error": f"{error:+.1%}",
        "within the interval": projected.low <= real["seconds"] <= projected.high,
        "steps projected": projected.steps,
        "steps trained": real["steps"],
        "parts, s": {k: round(v, 1) for k, v in projected.parts.items()},
        "within": abs(error) <= TOLERANCE,
    }


ENVIRONMENT = {
    # both sides compile from nothing: a cache that one leaves would make the other another run
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    "PYTHONPATH": str(ROOT),
}
"""Set before the first trial of a process, since trials have the environment of the server that forks them."""


def _trained(params: Path) -> dict[str, float]:
    """Seconds from the start of the interpreter to the end of training, and the steps; in the user's environment."""
    began = time.time()
    command = [sys.executable, "-m", "bench.validation.bare", str(params)]
    environment = {name: value for name, value in os.environ.items() if name not in process.ENVIRONMENT}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return {"seconds": said["ended"] - began, "steps": said["steps"]}
