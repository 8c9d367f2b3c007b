"""Identical arms on the device: every reading of a difference is false. The spread of a pair says what can be shown."""

from __future__ import annotations

import statistics
from functools import partial

from bench.gpu.part import Bench, Cell, Cells, Figures, Goal, Part
from bench.gpu.runs import RUNS, settings_of_run
from bench.gpu.scale import Scale
from bench.gpu.trials import arm_of, compared, measurer_of
from slowstep.judgement.comparison import Reading
from slowstep.judgement.stopping import StopRule

MOST_FALSE = 1
"""The most false readings in 24 comparisons. By the rule's calibration 4 % are false."""


def parts(scale: Scale) -> list[Part]:
    """Return a part for each run, with some comparisons of the run with itself."""
    room = tuple(f"identical-{run}" for run in RUNS)
    goals = [
        Goal(
            asked=f"identical arms told apart, of {scale.repeats * len(RUNS)} comparisons",
            wanted=f"at most {MOST_FALSE}",
            value=partial(_false, scale.repeats * len(RUNS)),
            holds=lambda count: count <= MOST_FALSE,
        ),
        Goal(
            asked="median spread of a pair, standard deviation of its log-ratio",
            wanted="below 2 %",
            value=lambda cells: statistics.median(f["spread"] for f in cells.values() if f.get("spread") is not None),
            holds=lambda spread: spread < 0.02,
        ),
    ]
    return [
        Part(
            name=f"identical-{run}",
            title=f"identical arms: {run}",
            cells=[
                Cell(name=f"{run} {repeat}", measure=partial(_twins, run, repeat), minutes=1.2)
                for repeat in range(1, scale.repeats + 1)
            ],
            goals=goals,
            room=room,
        )
        for run in RUNS
    ]


def _twins(run: str, repeat: int, bench: Bench) -> Figures:
    settings = settings_of_run(run, bench)
    arm = arm_of(settings, run)
    stop = StopRule(max_pairs=settings.budget.max_pairs, minimum_effect=settings.budget.minimum_effect)
    with measurer_of(settings, bench, "identical") as measurer:
        _, found = compared(measurer, arm, arm, stop, twin=True, purpose=f"repeat {repeat}")
    return found


def _false(wanted: int, cells: Cells) -> int | None:
    readings = [figures["reading"] for figures in cells.values()]
    return sum(r in (Reading.FASTER, Reading.SLOWER) for r in readings) if len(readings) == wanted else None
