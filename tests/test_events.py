"""Saving and evaluating: how often, and how they count where a block is too short to meet them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from asking import compare
from slowstep.factors import Arm
from slowstep.measure.local import LocalMeasurer
from slowstep.settings import Settings, override
from slowstep.settings.periodic_events import happens, is_rare, occurrences, steps_between

SAVE = "training_arguments.save_strategy"
STEPS = "training_arguments.save_steps"


@pytest.mark.parametrize(
    ("changes", "rare", "times", "between"),
    [
        ({SAVE: "no"}, False, 0, None),
        ({SAVE: "steps", STEPS: 10}, False, 25, 10.0),
        ({SAVE: "steps", STEPS: 100}, True, 3, 100.0),
        ({SAVE: "steps", STEPS: 0.1}, True, 10, 25.0),
        ({SAVE: "epoch"}, True, 1, 250.0),
    ],
)
def test_how_often_a_job_saves(smoke: Settings, changes: dict, rare: bool, times: int, between: float | None) -> None:
    """250 steps of 4 samples: by steps, by a share of the steps, by epochs, never; and once more at the end."""
    job = override(smoke, {"job.samples": 1000, "job.epochs": 1.0} | changes)

    assert happens(job.run, "save") is (changes[SAVE] != "no")
    assert is_rare(job.run, "save") is rare
    assert occurrences(job.run, "save", 250) == times
    assert steps_between(job.run, "save", 4.0) == between


def test_a_rare_event_counts_with_its_share(measurer: LocalMeasurer, arm: Callable[..., Arm]) -> None:
    """Saving every 100 steps: each block bears its part of one save, and only where the comparison asks for it."""
    rarer = arm(changes={"training_arguments.save_steps": 1000})
    asked = compare(measurer, arm(), rarer, pairs=1, periodic_events=frozenset({"save"}))
    plain = compare(measurer, arm(), rarer, pairs=1)

    for block in (asked.pairs[0].baseline, asked.pairs[0].treatment):
        assert block.amortised["save"] > 0
        assert block.phases["save"] == pytest.approx(block.amortised["save"])
        assert block.seconds == pytest.approx(sum(block.phases.values()))
        assert block.seconds == pytest.approx(sum(block.step_seconds) + block.amortised["save"])
    per_step = [b.amortised["save"] / b.steps for b in (asked.pairs[0].baseline, asked.pairs[0].treatment)]
    assert per_step[0] > per_step[1]
    assert plain.pairs[0].baseline.amortised == {}


def test_what_never_happens_has_no_share(measurer: LocalMeasurer, arm: Callable[..., Arm]) -> None:
    """A run that does not save bears nothing of a save, and the one beside it does."""
    never = arm(changes={SAVE: "no"})
    found = compare(measurer, arm(), never, pairs=1, periodic_events=frozenset({"save"})).pairs[0]

    assert found.baseline.amortised["save"] > 0
    assert found.treatment.amortised == {}
