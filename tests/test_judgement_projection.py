"""The real job's hours and cost."""

from __future__ import annotations

import pytest

from simulated import block
from slowstep.judgement.projection import project
from slowstep.records import EventRecord, Status, TrialRecord
from slowstep.settings import Settings, override

STARTED = TrialRecord(
    arm="baseline",
    status=Status.OK,
    startup={
        "process": 1.0,
        "data": 2.0,
        "model": 3.0,
        "trainer": 4.0,
        "first border": 5.0,
        "first step": 21.0,
        "warm-up": 9.0,
    },
    warmup_steps=10,
)
BLOCKS = [block([1.0] * 5, samples=4)] * 4


@pytest.fixture
def job(quick: Settings) -> Settings:
    """1000 samples, 3 epochs, at 4 samples a step: 750 steps, 500 saved apart."""
    return override(
        quick,
        {
            "job.samples": 1000,
            "job.epochs": 3.0,
            "job.price_per_hour": 2.0,
            "training_arguments.save_steps": 100,
            "training_arguments.eval_strategy": "epoch",
        },
    )


def test_all_costs_are_in(job: Settings) -> None:
    """Start-up, compilation, steps, saves and evaluations are all part of the job's time, and add up to it."""
    events = EventRecord(seconds={"save": [2.0, 4.0], "evaluate": [10.0]})
    found = project(job, BLOCKS, STARTED, events)

    assert {
        "start-up": 15.0,
        "warm-up and compilation": 20.0,
        "training steps": 750.0,
        "saving": 8 * 3.0,  # Trainer also saves after the last step
        "evaluating": 3 * 10.0,
    } == pytest.approx(found.parts)
    assert sum(found.parts.values()) == pytest.approx(found.seconds)


def test_stalled_blocks_count_by_their_time(job: Settings) -> None:
    """If every second block takes twice its time, the job takes 1.5 times as long, not the mean of the rates."""
    steady = project(job, BLOCKS, STARTED, None).parts["training steps"]
    stalling = project(job, [block([1.0] * 5, samples=4), block([2.0] * 5, samples=4)] * 2, STARTED, None)

    assert 1.5 * steady == pytest.approx(stalling.parts["training steps"])


def test_the_interval_holds_the_estimate(job: Settings) -> None:
    """Blocks that scatter give a range around the estimate; identical blocks give none."""
    wide = project(job, [block([s] * 5, samples=4) for s in (0.9, 1.0, 1.1)], STARTED, None)
    exact = project(job, BLOCKS, STARTED, None)

    assert 0 < wide.low < wide.seconds < wide.high
    assert (exact.seconds, exact.seconds) == (exact.low, exact.high)


def test_one_block_gives_no_false_certainty(job: Settings) -> None:
    """A single block says nothing about its spread: the range is open, and asking is no error."""
    assert float("inf") == project(job, BLOCKS[:1], STARTED, None).high


def test_a_job_costs_its_hours(job: Settings) -> None:
    """Two hours at 2 an hour cost 4; without a price there is no cost, rather than 0."""
    priced = project(job, BLOCKS, STARTED, None)
    unpriced = project(override(job, {"job.price_per_hour": None}), BLOCKS, STARTED, None)

    assert (4.0, None) == (priced.cost(7200.0), unpriced.cost(7200.0))


@pytest.mark.parametrize("missing", ["job.samples", "job.epochs"])
def test_a_job_of_unknown_size_is_not_projected(job: Settings, missing: str) -> None:
    """Without its size a job has no time."""
    assert project(override(job, {missing: None}), BLOCKS, STARTED, None) is None


def test_a_job_that_saves_nothing_spends_nothing_on_it(job: Settings) -> None:
    """save_strategy: no leaves saving out of the cost, whatever a save would take."""
    quiet = override(job, {"training_arguments.save_strategy": "no"})

    assert 0 == project(quiet, BLOCKS, STARTED, EventRecord(seconds={"save": [60.0]})).parts["saving"]
