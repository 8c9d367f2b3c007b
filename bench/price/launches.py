"""What launches and turns take: of trials of the kit, and of the same run started by its command."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.price.machines import STEP
from bench.price.ways import Launches
from slowstep.environment.home import ROOT
from slowstep.factors import Arm
from slowstep.final.script import script
from slowstep.measure.live_trial import LiveTrial
from slowstep.measure.local import LocalMeasurer
from slowstep.measure.pool import TrialPool
from slowstep.settings import Settings, load, override
from slowstep.workloads.data import load_tokenizer

TURNS = 7
TREATMENTS = 6
"""Trials that are launched beside another one, as a round launches them."""

BLOCK_STEPS = 5

LAST_STEP_OF_SCRIPT = 1000
"""The script is ended as soon as it is warm."""


def measured() -> dict[str, Any]:
    """Seconds from the launch to the first steady step, of the run of params/quick.yaml, and those of a turn.

    The script is the one that the kit writes for it, in plain transformers. It is taken to be warm after as many steps
    as the trial, and finds its data tokenised, as the trial does. The first launch of either is left out. A turn is
    what a block takes beside its own seconds, while other trials wait.
    """
    settings = override(load(ROOT / "params" / "quick.yaml").settings, {"training_arguments.logging_steps": 1})
    arm = Arm(label="as it is", settings=settings)
    trials, scripts, together, turns = list[float](), list[float](), list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder, LocalMeasurer(settings.budget, Path(folder)) as measurer:
        load_tokenizer(settings)  # made once per machine; the script finds it there
        _warm(settings, 1, Path(folder))  # tokenises the data, which either way would do once
        for _ in range(TURNS + 1):
            began = time.perf_counter()
            trial = measurer.pool.launch(arm, "launch")
            trials.append(time.perf_counter() - began)
            together.append(_together(measurer.pool, arm))
            turns += _turns(list(measurer.pool.live.values()))
            measurer.pool.keep_only(set())
            scripts.append(_warm(settings, trial.record.warmup_steps, Path(folder)))
    once = trials[0] - statistics.median(trials[1:])
    found = {"trials": trials, "trials together": together, "scripts": scripts}
    return {name: times[1:] for name, times in found.items()} | {"turns": turns, "once": max(0.0, once)}


def of_record(found: dict[str, Any]) -> Launches:
    """What was measured, as what each way pays. A turn discards a step, and the simulated one has its own length."""
    medians = {name: statistics.median(times) for name, times in found.items() if isinstance(times, list)}
    return Launches(
        kit=medians["trials"],
        together=medians["trials together"],
        turn=max(STEP, medians["turns"]),
        run=medians["scripts"],
        once=found["once"],
    )


def _together(pool: TrialPool, arm: Arm) -> float:
    """The seconds of each of several launches beside a live trial, built as a round builds its treatments."""
    began = time.perf_counter()
    waiting = [f"launch {number}" for number in range(TREATMENTS)]
    while waiting:
        number = max(1, pool.room_for([arm.settings for _ in waiting]))
        pool.start(dict.fromkeys(waiting[:number], arm))
        for key in waiting[:number]:
            pool.launch(arm, key)
        del waiting[:number]
    return (time.perf_counter() - began) / TREATMENTS


def _turns(trials: Sequence[LiveTrial]) -> list[float]:
    """The seconds of a turn of each trial beside its block: what ran before it was another one."""
    took = []
    for trial in trials:
        began = time.perf_counter()
        block = trial.block(BLOCK_STEPS * trial.step_samples)
        took.append(time.perf_counter() - began - block.seconds)
    return took


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
