"""The projected time of a whole job against the same job really trained to its end, without the kit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

from bench.validation.scenarios import Scenario
from slowstep.investigation import ROOT, open_investigation
from slowstep.trials import process

TOLERANCE = 0.05
PAIRS = 12
"""Of the baseline with itself: more than a verdict needs, since a speed is asked for and not a change."""


KEPT = {name: value for name, value in process.ENVIRONMENT.items() if name.startswith("MALLOC_")}
"""Freed memory is kept, as in the trials and in final/train.py; a user's own job has it only by setting it."""


def measure(case: Scenario, folder: Path) -> dict[str, Any]:
    """Train the job, project it from short trials, train it again: a machine that grows slower misleads neither.

    The job is trained in both ways, with freed memory kept and left to glibc; it is the first that is projected.
    """
    params = case.write(folder / "params")
    shutil.rmtree(folder / "projected" / case.name, ignore_errors=True)
    left, kept = [_trained(params, {})], [_trained(params, KEPT)]
    inv = open_investigation(str(params), [f"budget.noise_pairs={PAIRS}"], outputs=str(folder / "projected"))
    projected = inv.baseline.projection
    inv.close()
    kept.append(_trained(params, KEPT))
    left.append(_trained(params, {}))
    seconds = {"kept": mean(t["seconds"] for t in kept), "left": mean(t["seconds"] for t in left)}
    errors = {how: projected.seconds / s - 1 for how, s in seconds.items()}
    return {
        "job": case.name,
        "projected, s": round(projected.seconds, 1),
        "interval, s": f"{projected.low:.1f} to {projected.high:.1f}",
        "trained, s": round(seconds["kept"], 1),
        "before and after, s": ", ".join(f"{t['seconds']:.1f}" for t in kept),
        "error": f"{errors['kept']:+.1%}",
        "within the interval": projected.low <= seconds["kept"] <= projected.high,
        "left to glibc, s": ", ".join(f"{t['seconds']:.1f}" for t in left),
        "error then": f"{errors['left']:+.1%}",
        "steps projected": projected.steps,
        "steps trained": kept[0]["steps"],
        "parts, s": {k: round(v, 1) for k, v in projected.parts.items()},
        "within": abs(errors["kept"]) <= TOLERANCE,
        "within, left": abs(errors["left"]) <= TOLERANCE,
    }


ENVIRONMENT = {
    # both sides compile from nothing: a cache that one leaves would make the other another run
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    "PYTHONPATH": str(ROOT),
}
"""Set before the first trial of a process, since trials have the environment of the server that forks them."""


def _trained(params: Path, added: dict[str, str]) -> dict[str, float]:
    """Seconds from the start of the interpreter to the end of training, and the steps; in the user's environment with
    what is `added`."""
    began = time.time()
    command = [sys.executable, "-m", "bench.validation.bare", str(params)]
    environment = {name: value for name, value in os.environ.items() if name not in process.ENVIRONMENT} | added
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return {"seconds": said["ended"] - began, "steps": said["steps"]}
