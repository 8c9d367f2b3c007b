"""What a launch takes: of a trial of the kit, and of the same run started by its command, in turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.price.ways import Launches
from slowstep.environment.home import ROOT
from slowstep.factors import Arm
from slowstep.final.script import script
from slowstep.measure.local import LocalMeasurer
from slowstep.settings import Settings, load, override

TURNS = 7
LAST_STEP_OF_SCRIPT = 1000
"""The script is ended as soon as it is warm."""


def measured() -> dict[str, Any]:
    """Seconds from the launch to the first steady step, of the run of params/quick.yaml.

    The script is the one that the kit writes for it, in plain transformers. It is taken to be warm after as many steps
    as the trial, and finds its data tokenised, as the trial does. The first launch of either is left out.
    """
    settings = override(load(ROOT / "params" / "quick.yaml").settings, {"training_arguments.logging_steps": 1})
    trials: list[float] = []
    scripts: list[float] = []
    with tempfile.TemporaryDirectory() as folder, LocalMeasurer(settings.budget, Path(folder)) as measurer:
        for _ in range(TURNS + 1):
            began = time.perf_counter()
            trial = measurer.pool.launch(Arm(label="as it is", settings=settings), "launch").record
            trials.append(time.perf_counter() - began)
            measurer.pool.end("launch")
            scripts.append(_warm(settings, trial.warmup_steps, Path(folder)))
    once = trials[0] - statistics.median(trials[1:])
    return {"trials": trials[1:], "scripts": scripts[1:], "once": max(0.0, once)}


def of_record(found: dict[str, Any]) -> Launches:
    """What was measured, as what each way pays."""
    medians = {name: statistics.median(found[name]) for name in ("trials", "scripts")}
    return Launches(kit=medians["trials"], run=medians["scripts"], once=found["once"])


def _warm(settings: Settings, steps: int, folder: Path) -> float:
    """The seconds from the start of the script to the end of so many of its steps."""
    path = folder / "train.py"
    path.write_text(script(settings), encoding="utf-8")
    command = [sys.executable, "-u", str(path), "--output_dir", str(folder / "out")]
    command += ["--max_steps", str(LAST_STEP_OF_SCRIPT)]
    began, seen = time.perf_counter(), 0
    with (
        (folder / "errors").open("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder) as run,
    ):
        assert run.stdout is not None
        for line in run.stdout:
            seen += "'loss'" in line
            if seen == steps:
                break
        took = time.perf_counter() - began
        run.kill()
        if seen < steps:
            errors.seek(0)
            raise RuntimeError(f"the script ended before it was warm: {errors.read()[-2000:]}")
    return took
