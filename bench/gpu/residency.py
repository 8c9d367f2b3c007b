"""Two resident arms on one device: what a launch takes, what a turn takes, and what an idle neighbour costs."""

from __future__ import annotations

import statistics
import time
from functools import partial

from bench.gpu.matrix import LARGE_LIMIT, settings_of_cell
from bench.gpu.part import Bench, Cell, Figures, Goal, Part
from bench.gpu.runs import LANGUAGE, SMALL, settings_of_run
from bench.gpu.trials import arm_of, block_of, life, measurer_of
from slowstep.measure.live_trial import LiveTrial
from slowstep.measure.local import LocalMeasurer
from slowstep.records import identity
from slowstep.settings import Settings

MISTRAL = "mistral"
MISTRAL_BATCH = 4

BLOCKS = 5
"""Blocks of the first arm alone, and beside the other; and turns of both."""


def parts() -> list[Part]:
    """Return the part."""
    return [
        Part(
            name="residency",
            title="two resident arms: launches, turns, and an idle neighbour",
            cells=[
                Cell(name=SMALL, measure=partial(_resident, SMALL), minutes=1.5),
                Cell(name=LANGUAGE, measure=partial(_resident, LANGUAGE), minutes=2.0),
                Cell(name=MISTRAL, measure=partial(_resident, MISTRAL), minutes=4.0),
            ],
            goals=[
                Goal(
                    asked="speed beside an idle arm over that alone, worst",
                    wanted="within 3 %",
                    value=lambda cells: max((f["beside_over_alone"] - 1 for f in cells.values()), key=abs),
                    holds=lambda off: abs(off) <= 0.03,
                ),
                Goal(
                    asked="seconds of a turn beyond its block and its discarded steps, longest median",
                    wanted="below 0.1 s",
                    value=lambda cells: max(f["turn_seconds"] for f in cells.values()),
                    holds=lambda seconds: seconds < 0.1,
                ),
            ],
        )
    ]


def _settings(name: str, bench: Bench) -> Settings:
    if name == MISTRAL:
        return settings_of_cell(bench.scale.length, MISTRAL_BATCH, LARGE_LIMIT, {}, bench)
    return settings_of_run(name, bench)


def _resident(name: str, bench: Bench) -> Figures:
    """Launch an arm, measure it alone; launch another beside it, measure the first again; then let both take turns."""
    settings = _settings(name, bench)
    arm, key = arm_of(settings, name), identity(settings.name)
    seconds = bench.scale.block_seconds / 4
    with measurer_of(settings, bench, "residency") as measurer:
        first, launch = _launched(measurer, arm, key)
        alone = [_pace(first, seconds) for _ in range(BLOCKS)]
        second, launch_beside = _launched(measurer, arm, identity(settings.name, "twin"))
        beside = [_pace(first, seconds) for _ in range(BLOCKS)]
        turns = [_turn(trial, seconds) for _ in range(BLOCKS) for trial in (first, second)]
        lives = [life(first), life(second)]
    return {
        "launch_seconds": launch,
        "launch_beside_seconds": launch_beside,
        "startup": lives[0]["startup"],
        "memory": [each["memory"] for each in lives],
        "beside_over_alone": statistics.median(beside) / statistics.median(alone),
        "alone": alone,
        "beside": beside,
        "turn_seconds": statistics.median(turns),
        "turns": turns,
        "step_seconds": first.step_seconds,
    }


def _launched(measurer: LocalMeasurer, arm: object, key: str) -> tuple[LiveTrial, float]:
    """Return a trial that is warm, and what its launch took without the steps of its warm-up."""
    began = time.perf_counter()
    trial = measurer.pool.launch(arm, key)
    warm = sum(trial.record.startup.get(part, 0.0) for part in ("first step", "warm-up"))
    return trial, time.perf_counter() - began - warm


def _pace(trial: LiveTrial, seconds: float) -> float:
    """Return the samples a second of a block."""
    block = block_of(trial, seconds)
    return block.work.samples / block.seconds


def _turn(trial: LiveTrial, seconds: float) -> float:
    """Return what a turn takes beyond its block and the steps that it discards."""
    trained, began = trial.trained, time.perf_counter()
    block = block_of(trial, seconds)
    took, each = time.perf_counter() - began, block.seconds / block.steps
    return took - block.seconds - (trial.trained - trained - block.steps) * each
