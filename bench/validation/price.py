"""Steps that the kit spends to judge everything in quick.yaml, against a grid of the same arms.

The grid is that of transformers' scripts/benchmark/trainer-benchmark.py: every arm is trained once, for a fixed number
of steps. Its documented example trains 10 000 samples in batches of 32, which are 312 steps. What such a grid gets
right is in the calibration ("one run each"), on every kind of machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slowstep.environment.machine import this_machine
from slowstep.factors import comparison_family
from slowstep.investigation.results import PlanRun, Summary
from slowstep.records import Store
from slowstep.settings import LEVEL_SECTIONS, load

GRID_STEPS = 10_000 // 32


def measure(params: Path, outputs: Path) -> dict[str, Any]:
    """Return the price by the records of a diagnosis made from nothing."""
    settings = load(params).settings
    store = Store(outputs / settings.name / "records")
    summaries = [store.read(Summary, "summaries", p.stem) for p in sorted((store.folder / "summaries").glob("*.json"))]
    steps = {s.notebook: s.steps for s in summaries if s}
    steps["the hypotheses of all notebooks"] = sum(plan.steps for plan in store.every(PlanRun, "plans"))
    kit = sum(steps.values())
    contrasts = {c.name: c for s in LEVEL_SECTIONS for c in comparison_family(settings, s, this_machine())}
    arms = 1 + sum(not c.untestable for c in contrasts.values())
    grid = arms * GRID_STEPS
    return {
        "arms": arms,
        "steps_kit": kit,
        "steps_grid": grid,
        "ratio": grid / kit if kit else 0.0,
        "steps_kit_by_part": steps,
    }
