"""The projection of a job of some minutes against the same job, really trained to its end without the kit.

The job is seed 001 as it is. The number of its samples is chosen so that it takes `job_seconds`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from bench.gpu.matrix import FILE
from bench.gpu.part import Bench, Cell, Cells, Figures, Goal, NotYet, Part
from bench.gpu.trials import arm_of, measurer_of, once, settings_of
from slowstep.environment.home import ROOT
from slowstep.investigation import open_investigation
from slowstep.launch.environment import ENVIRONMENT as OF_TRIALS
from slowstep.settings.convert import to_plain

PROJECTED, TRAINED = "job-projected", "job-trained"
TOLERANCE = 0.05
TIMEOUT = 540.0
"""The most seconds of the real run."""


def parts() -> list[Part]:
    """Return the projection and the real run, which are held against each other."""
    goals = [
        Goal(
            asked="projected seconds over those of the real run",
            wanted="within 5 %",
            value=_ratio,
            holds=lambda ratio: abs(ratio - 1) <= TOLERANCE,
        )
    ]
    room = (PROJECTED, TRAINED)
    return [
        Part(
            name=PROJECTED,
            title="seed 001: a job of five minutes, projected",
            cells=[Cell(name="projected", measure=_projected, minutes=5.0)],
            goals=goals,
            room=room,
        ),
        Part(
            name=TRAINED,
            title="seed 001: the same job, trained to its end",
            cells=[Cell(name="trained", measure=_trained, minutes=7.0)],
            goals=goals,
            room=room,
        ),
    ]


def _ratio(cells: Cells) -> float:
    return cells["projected"]["seconds"] / cells["trained"]["seconds"]


def _changes(bench: Bench) -> dict[str, Any]:
    return {
        "model.config": bench.scale.mistral,
        "dataset.max_length": bench.scale.length,
        "budget.block_seconds": bench.scale.block_seconds,
        "sequence_length": {},  # a shorter length than this is no level of the short one
        **bench.scale.job,
    }


def _projected(bench: Bench) -> Figures:
    """Measure the pace, choose the samples, and project the job as `slowstep` does, from its baseline alone."""
    settings = settings_of(FILE, _changes(bench), bench)
    with measurer_of(settings, bench, "job") as measurer:
        found = once(measurer, arm_of(settings, "pace"), bench.scale.block_seconds)
    if found["status"] != "ok":
        raise RuntimeError(f"the run can't be trained: {found['reason']}")
    samples = max(settings.effective_batch_size, round(bench.scale.job_seconds * found["samples_per_second"]))
    params = _params(samples, bench)
    lab = open_investigation(str(params), outputs=str(bench.work))
    try:
        projected = lab.baseline.projection
    finally:
        lab.close()
    return {"samples": samples, **to_plain(projected)}


def _trained(bench: Bench) -> Figures:
    """Train the job in an interpreter of its own; its seconds are those from the interpreter's start."""
    known = bench.known(PROJECTED)
    if "projected" not in known:
        raise NotYet(f"it needs the number of samples that {PROJECTED} chooses")
    params = _params(known["projected"]["samples"], bench)
    environment = {name: value for name, value in os.environ.items() if name not in OF_TRIALS}
    began = time.time()
    done = subprocess.run(
        [sys.executable, "-m", "bench.validation.bare", str(params), "kept"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    if done.returncode:
        raise RuntimeError(f"the job ended with status {done.returncode}: {done.stderr[-1000:]}")
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return {"seconds": said["ended"] - began, "steps": said["steps"]}


def _params(samples: int, bench: Bench) -> Path:
    """Write the parameter file of the job, and return its path."""
    data = yaml.safe_load((ROOT / FILE).read_text(encoding="utf-8"))
    data = {name: data[name] for name in ("model", "quantization", "dataset", "training_arguments", "peft")}
    data["model"]["config"], data["dataset"]["max_length"] = bench.scale.mistral, bench.scale.length
    for key, value in bench.scale.job.items():
        section, _, name = key.partition(".")
        data[section][name] = value
    data |= {
        "name": "job",
        "job": {"samples": samples, "epochs": 1},
        "budget": bench.scale.budget | {"block_seconds": bench.scale.block_seconds},
    }
    path = bench.work / "params" / "job.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path
