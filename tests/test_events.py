"""Saving and evaluating: how often, and how they count where a block is too short to meet them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from asking import compare
from slowstep.factors import Arm
from slowstep.measure.live_trial import LiveTrial
from slowstep.measure.local import LocalMeasurer
from slowstep.records import Block, Status, TrialRecord
from slowstep.settings import Settings, override
from slowstep.settings.periodic_events import happens, is_rare, occurrences, steps_between
from slowstep.settings.schema import Budget
from slowstep_probe.measured import Work
from slowstep_probe.trial.messages import PeriodicEventDone

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


def test_what_an_event_takes_the_first_time_is_no_share_of_each(smoke: Settings) -> None:
    """A pass may be compiled then. Of the second one, 0.4 s start its workers, and the rest grows with the samples."""
    answers = iter([30.0, 1.0, 2.0])
    done = lambda: PeriodicEventDone(seconds=next(answers), bytes=None, samples=8, fixed=0.4)  # noqa: E731
    trial = LiveTrial(
        process=SimpleNamespace(ask=lambda request, timeout: done(), budget=Budget()),
        record=TrialRecord(arm="x", status=Status.OK),
        device="cpu",
        periodic_events=["evaluate"],
        step_seconds=0.2,
        step_samples=8,
        period=1,
        discard=1,
        position=0,
        warm=0,
        began=0.0,
        trained=0,
    )
    rare = {"training_arguments.eval_strategy": "steps", "training_arguments.eval_steps": 100}
    settings = override(smoke, rare | {"dataset.eval_samples": 80})
    block = Block(steps=10, seconds=1.0, phases={"evaluate": 0.0}, step_seconds=[0.1] * 10, work=Work(samples=80))
    shares = [trial.amortised(settings, block, ["evaluate"]).amortised["evaluate"] for _ in range(2)]

    assert shares == pytest.approx([(0.4 + 0.6 * 10) / 10, (0.4 + 1.6 * 10) / 10])


def test_what_never_happens_has_no_share(measurer: LocalMeasurer, arm: Callable[..., Arm]) -> None:
    """A run that does not save bears nothing of a save, and the one beside it does."""
    never = arm(changes={SAVE: "no"})
    found = compare(measurer, arm(), never, pairs=1, periodic_events=frozenset({"save"})).pairs[0]

    assert found.baseline.amortised["save"] > 0
    assert found.treatment.amortised == {}


def test_events_keep_within_the_minutes(budget: Budget, arm: Callable[..., Arm], tmp_path: Path) -> None:
    """Once the deadline is over an event happens once, and the record says that it was cut."""
    with LocalMeasurer(replace(budget, minutes=100.0), tmp_path) as measurer:
        measurer.deadline = time.monotonic() - 1.0
        found = measurer.events(arm())
        waits_on = measurer.pool.latest

    assert {event: len(seconds) for event, seconds in found.seconds.items()} == {"save": 1, "evaluate": 1}
    assert found.bytes["save"] > 0
    assert (found.cut_within, found.failed) == (100.0, {})
    assert waits_on == math.inf


def test_nothing_is_waited_for_when_no_time_is_left(budget: Budget, arm: Callable[..., Arm], tmp_path: Path) -> None:
    """No launch, for events or for a profile, takes its five minutes then; each record says why it is empty."""
    with LocalMeasurer(replace(budget, minutes=1e-6), tmp_path) as measurer:
        measurer.deadline = time.monotonic() + 1e-3
        events = measurer.events(arm())
        profile = measurer.profile(arm(), tmp_path / "trace.json.gz")
        observed = measurer.observe(arm(), 10**6, 1e6)
        steps = measurer.steps

    assert not events.seconds
    assert events.failed == {"launch": profile.failed}
    assert "no time was left" in profile.failed
    assert (events.cut_within, observed.cut_within) == (1e-6, 1e-6)
    assert steps == 0
