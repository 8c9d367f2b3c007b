"""The real job's hours and cost."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from simulated import block
from slowstep.judgement.drift import UNKNOWN, Drift
from slowstep.judgement.projection import Projection, project, unknown
from slowstep.judgement.run_facts import baseline_facts, periodic_event_shares
from slowstep.records import Block, ComparisonRecord, EventRecord, Pair, Status, Steps, TrialRecord
from slowstep.settings import Settings, override
from slowstep.settings.command import Command, Seen, Surveyed
from slowstep.wording.words import change_of_job, counted, duration, hours

STARTED = TrialRecord(
    arm="baseline",
    status=Status.OK,
    startup={
        "process": 1.0,
        "data": 2.0,
        "model": 3.0,
        "trainer": 4.0,
        "first step boundary": 5.0,
        "first step": 21.0,
        "warm-up": 9.0,
    },
    warmup_steps=10,
)


def measured(*blocks: Block, **observed: object) -> ComparisonRecord:
    """An A/A comparison whose pairs are twice the same block."""
    pairs = [Pair(first="baseline", baseline=b, treatment=b, launch=i) for i, b in enumerate(blocks)]
    return ComparisonRecord(baseline=replace(STARTED, observed=observed), treatment=STARTED, pairs=pairs)


EVEN_BLOCKS = [block([1.0] * 5, samples=4)] * 4
EVEN = measured(*EVEN_BLOCKS)

STEADY = Drift([0.0] * 10_000)
"""That of a machine which was as fast at ever so many moments."""


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
    events = EventRecord(seconds={"save": [3.0, 2.0, 4.0], "evaluate": [10.0]})
    found = project(job, EVEN, events)

    assert {
        "start-up": 15.0,
        "warm-up and compilation": 20.0,
        "training steps": 750.0,
        "saving": 8 * 3.0,  # Trainer also saves after the last step
        "evaluating": 3 * 10.0,
    } == pytest.approx(found.parts)
    assert sum(found.parts.values()) == pytest.approx(found.seconds)
    assert found.left_out == ""


def test_what_an_event_costs_once_counts_once(job: Settings) -> None:
    """A pass that is compiled in the first evaluation is no part of each, nor does it grow with the data set.

    Of 8 samples an evaluation takes 2 s, of these 1.2 s to start; of 80 it takes 1.2 s and ten times the rest.
    """
    events = EventRecord(
        seconds={"evaluate": [22.0, 2.0, 2.0]}, samples={"evaluate": 8}, fixed={"evaluate": [21.2, 1.2, 1.2]}
    )
    found = project(override(job, {"dataset.eval_samples": 80}), EVEN, events)
    shares = periodic_event_shares(override(job, {"dataset.eval_samples": 80}), EVEN_BLOCKS, events)

    assert found.parts["evaluating"] == pytest.approx(3 * 9.2 + 20.0)
    assert shares["evaluate"] == pytest.approx(9.2 / 250 / (1.0 + 9.2 / 250))


def test_a_record_that_tells_no_fixed_seconds_is_scaled_as_a_whole(job: Settings) -> None:
    """It is an older one, or one of an evaluation of few batches."""
    events = EventRecord(seconds={"evaluate": [2.0, 2.0]}, samples={"evaluate": 8})

    assert project(override(job, {"dataset.eval_samples": 80}), EVEN, events).parts["evaluating"] == 3 * 20.0


def of_command(job: Settings, *objects: str, protected: bool = True, **seen: object) -> Settings:
    """The job of a command whose program makes such objects, with what its survey saw."""
    command = Command(words=[], python="", arguments=["train.py"], folder="/", protected=protected)
    values = {name: Seen(value=value) for name, value in seen.items()}
    surveyed = Surveyed(objects=list(objects), values=values)
    return replace(job, training_arguments={}, command=command, surveyed=surveyed)


def test_what_no_trial_of_a_loop_meets_is_said_to_be_left_out(job: Settings) -> None:
    """Epochs of its trials go on without end, so a validation after each is in none of the job's parts."""
    found = project(of_command(job, "loader"), EVEN, EventRecord(seconds={}))
    ends = project(of_command(job, "loader", loaders_by_turns=True), EVEN, EventRecord(seconds={}))

    assert "after each epoch" in found.left_out
    assert "after each epoch" not in ends.left_out
    assert "too seldom for a trial" in ends.left_out
    assert "That counts start-up, warm-up and compilation and training steps. " in counted(found)
    assert f" The time of the job leaves out {found.left_out}. " in counted(found)


def test_what_a_survey_saw_after_an_epoch_is_a_part_of_the_job(job: Settings) -> None:
    """Three epochs end with 40 s each; what was met is no longer left out. Trials in which epochs end meet it."""
    found = project(of_command(job, "loader", seconds_after_epoch=40.0), EVEN, EventRecord(seconds={}))
    plain = project(of_command(job, "loader", seconds_after_epoch=0.001), EVEN, EventRecord(seconds={}))
    ends = of_command(job, "loader", seconds_after_epoch=40.0, loaders_by_turns=True)

    assert found.parts["after epochs"] == 3 * 40.0
    assert sum(found.parts.values()) == pytest.approx(found.seconds)
    assert "took 40 s in the survey, taken for each" in found.assumed
    assert "after each epoch" not in found.left_out
    assert (plain.assumed, plain.left_out) == ("", found.left_out)
    assert "after epochs" not in plain.parts
    assert "after epochs" not in project(ends, EVEN, EventRecord(seconds={})).parts


def test_a_trainer_that_can_not_be_made_to_evaluate_is_said_to_lack_that(job: Settings) -> None:
    """Its data set has no length, or nothing protects the user's checkpoints: then neither happens when asked."""
    seen = {"eval_strategy": "epoch", "save_strategy": "steps", "save_steps": 100}
    events = EventRecord(seconds={"save": [3.0]})
    no_length = project(of_command(job, "arguments", "loader", **seen), EVEN, events)
    all_known = project(
        of_command(job, "arguments", "loader", **seen, **{"dataset.eval_samples": 8}),
        EVEN,
        replace(events, seconds={"save": [3.0], "evaluate": [10.0]}),
    )
    unprotected = project(of_command(job, "arguments", protected=False, **seen), EVEN, EventRecord(seconds={}))

    assert no_length.left_out.startswith("evaluating, as far as the trials did not meet it: the length of the data set")
    assert "saving" not in no_length.left_out
    assert all_known.left_out == ""
    assert [one.partition(",")[0] for one in unprotected.left_out.split("; ")] == ["saving", "evaluating"]


def test_stalled_blocks_count_by_their_time(job: Settings) -> None:
    """If every second block takes twice its time, the job takes 1.5 times as long, not the mean of the rates."""
    steady = project(job, EVEN, None).parts["training steps"]
    stalling = project(job, measured(*[block([1.0] * 5, samples=4), block([2.0] * 5, samples=4)] * 2), None)

    assert 1.5 * steady == pytest.approx(stalling.parts["training steps"])


def test_the_interval_holds_the_estimate(job: Settings) -> None:
    """Blocks that scatter give a range around the estimate; identical blocks that in which two moments differ."""
    wide = project(job, measured(*(block([s] * 5, samples=4) for s in (0.9, 1.0, 1.1))), None)
    even = project(job, EVEN, None)

    assert 0 < wide.low < wide.seconds < wide.high
    assert wide.low < even.low < even.seconds < even.high < wide.high
    assert math.log(even.high / even.seconds) == pytest.approx(UNKNOWN.half)


def test_a_machine_that_drifts_widens_the_interval_and_says_so(job: Settings) -> None:
    """The run was seen a tenth slower and a twentieth faster at other moments: the job may meet either."""
    drift = Drift([math.log(1.1), math.log(0.95), 0.0])
    still, moves, alone = (project(job, EVEN, None, drift=seen) for seen in (STEADY, drift, UNKNOWN))

    assert moves.low < 0.95 * still.seconds < still.low < still.seconds == moves.seconds
    assert still.high < 1.1 * still.seconds < moves.high
    assert "At 3 other moments its steps took 95 % to 110 % of the time" in counted(moves)
    assert "timed at one moment" in counted(alone)
    assert "At 10,000 other moments its steps took 100 % to 100 %" in counted(still)


def test_a_change_is_known_as_well_on_a_machine_that_drifts(job: Settings) -> None:
    """Both arms of a pair drift together: what the change alone leaves open stays the same."""
    faster = block([0.5] * 5, samples=4)
    halved = replace(EVEN, pairs=[replace(pair, treatment=faster) for pair in EVEN.pairs])
    still, moves = (project(job, EVEN, None, halved, drift=Drift(seen)) for seen in ((), [0.2, -0.2]))

    assert still.beside == moves.beside
    assert moves.high > 1.2 * moves.seconds > still.high


@pytest.mark.parametrize("pairs", [1, 2])
def test_too_few_pairs_give_no_job(job: Settings, pairs: int) -> None:
    """They say nothing about a speed's spread, before a change and after it: no interval without end is told."""
    few = measured(*EVEN_BLOCKS[:pairs])

    assert project(job, few, None) is None
    assert "fewer than 3 pairs" in unknown(job, few)
    assert project(job, EVEN, None, few) is None


def test_a_job_costs_its_hours(job: Settings) -> None:
    """Two hours at 2 an hour cost 4; without a price there is no cost, rather than 0."""
    priced = project(job, EVEN, None)
    unpriced = project(override(job, {"job.price_per_hour": None}), EVEN, None)

    assert (4.0, None) == (priced.cost(7200.0), unpriced.cost(7200.0))


@pytest.mark.parametrize("missing", ["job.samples", "job.epochs"])
def test_a_job_of_unknown_size_is_not_projected(job: Settings, missing: str) -> None:
    """Without its size a job has no time."""
    assert project(override(job, {missing: None}), EVEN, None) is None


def test_what_a_change_leaves_open_is_less_than_how_long_the_job_takes(job: Settings) -> None:
    """Blocks drift by a quarter from pair to pair, and the change is a third in each of them."""
    drift = [0.8, 1.0, 1.2, 0.9]
    before = project(job, measured(*(block([s] * 5, samples=4) for s in drift)), None)
    pairs = [
        Pair(
            first="baseline",
            baseline=block([s] * 5, samples=4),
            treatment=block([s / 1.5 * noise] * 5, samples=4),
            launch=0,
        )
        for s, noise in zip(drift, [0.99, 1.0, 1.01, 1.0], strict=True)
    ]
    change = ComparisonRecord(baseline=STARTED, treatment=STARTED, pairs=pairs)
    after = project(job, measured(*(block([s] * 5, samples=4) for s in drift)), None, change)

    assert before.beside is None
    low, high = after.beside
    assert low < after.seconds < high
    assert high < before.seconds  # told apart, though each by itself is hardly known
    assert after.high > before.low
    assert 3 * (high - low) < after.high - after.low


def test_a_job_that_saves_nothing_spends_nothing_on_it(job: Settings) -> None:
    """save_strategy: no leaves saving out of the cost, whatever a save would take."""
    quiet = override(job, {"training_arguments.save_strategy": "no"})

    assert "saving" not in project(quiet, EVEN, EventRecord(seconds={"save": [60.0]})).parts


def test_a_save_that_could_not_be_measured_is_not_silently_free(job: Settings) -> None:
    """The job's time is told with what it leaves out."""
    found = project(job, EVEN, EventRecord(seconds={"evaluate": [10.0]}, failed={"save": "no time was left"}))

    assert "saving" not in found.parts
    assert found.left_out == "saving, which could not be measured (no time was left)"


def test_what_the_measured_steps_hold_is_not_counted_again(job: Settings) -> None:
    """A save every ten steps happens in the blocks, so its time is in the speed already."""
    often = override(job, {"training_arguments.save_strategy": "steps", "training_arguments.save_steps": 10})

    assert "saving" not in project(often, EVEN, EventRecord(seconds={"save": [60.0]})).parts


def test_batches_that_happen_to_be_long_mislead_no_one(job: Settings) -> None:
    """The blocks met batches a quarter longer than the epoch's: the job takes the time of its own positions."""
    long = [block([1.0] * 5, samples=4, tokens=125)] * 4
    found = project(job, measured(*long, epoch_padded_tokens=1000 * 100), None)
    unknown = project(job, measured(*long), None)

    assert found.parts["training steps"] == pytest.approx(750.0 / 1.25)
    assert unknown.parts["training steps"] == pytest.approx(750.0)


def test_it_is_said_whose_samples_are_counted_where_a_step_draws_from_several_loaders(job: Settings) -> None:
    """Another loader's samples given as `job.samples` would make the job another one."""
    several = project(job, measured(*EVEN_BLOCKS, loaders_of_step=2), EventRecord(seconds={}))

    assert "of the 2 loaders that a step draws from" in several.assumed
    assert "loaders" not in project(job, EVEN, EventRecord(seconds={})).assumed


def test_the_steps_of_an_epoch_are_the_loaders(job: Settings) -> None:
    """Where a trial has seen the loader's length, it counts: packing and a dropped batch make other numbers."""
    assert project(job, EVEN, None).steps == 750
    assert project(job, measured(*EVEN_BLOCKS, epoch_steps=199), None).steps == 3 * 199


@pytest.mark.parametrize(
    ("samples", "epoch_steps", "steps", "saves"),
    [
        (100_000, 250, 25_000, 50),  # tried on a hundredth of the data
        (100, 250, 25, 1),
        (1000, 249, 249, 1),  # the same data, whose last batch is dropped
        (None, 250, 250, 1),
    ],
)
def test_a_command_tried_on_a_part_of_its_data_has_the_steps_of_its_job(
    job: Settings, samples: int | None, epoch_steps: int, steps: int, saves: int
) -> None:
    """Steps and saves are those of job.samples, as the time of training is, and not those of the trial's loader."""
    asked = override(
        replace(job, command=Command(words=[], python="", arguments=["train.py"], folder="/")),
        {
            "job.samples": samples,
            "job.epochs": 1.0,
            "training_arguments.save_strategy": "steps",
            "training_arguments.save_steps": 500,
        },
    )
    found = project(asked, measured(*EVEN_BLOCKS, epoch_steps=epoch_steps), EventRecord(seconds={"save": [2.0]}))

    assert found.steps == steps
    assert found.parts["saving"] == 2.0 * saves
    assert found.parts["training steps"] == pytest.approx((samples or 1000) / 4)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ((8640, 7140, 10440), "2.4 h [2.0, 2.9]"),
        ((6060, 3780, 8280), "101 min [63, 138]"),
        ((201, 180, 660), "3.4 min [3.0, 11]"),
        ((100, 80, 130), "100.0 s [80.0, 130.0]"),
    ],
)
def test_an_interval_of_hours_has_one_unit(seconds: tuple[float, float, float], words: str) -> None:
    """Nobody has to hold minutes against hours to see how sure a projection is."""
    middle, low, high = seconds
    job = Projection(parts={}, seconds=middle, low=low, high=high, steps=100, price_per_hour=None, currency="USD")

    assert words == hours(job)


@pytest.mark.parametrize(
    ("seconds", "beside", "words"),
    [
        (145.0, 207.0, "2.4 min"),
        (207.0, None, "3.5 min"),
        (597.0, None, "10 min"),
        (500.0, 9000.0, "0.14 h"),
        (0.0036, 0.115, "3.6 ms"),
        (0.03, 2.0, "0.03 s"),
        (0.0, None, "0 ms"),
    ],
)
def test_a_duration_has_two_digits_at_least(seconds: float, beside: float | None, words: str) -> None:
    """Two jobs that differ by 43 % are not both told as 2 min, nor is a small part of a step as nothing."""
    assert words == duration(seconds, beside=beside)


@pytest.mark.parametrize(
    ("before", "after", "price", "said"),
    [
        ((684, 660, 708), (640, 636, 644), 0.06, "takes 10.7 min [10.6, 10.7] in place of 11.4 min, and costs 0.0107"),
        ((7236, 7000, 7500), (7200, 7100, 7300), None, "takes 2.00 h [1.97, 2.03] in place of 2.01 h"),
        ((7200, 7000, 7500), (3600, 3500, 3700), 1.0, "takes 1.00 h [0.97, 1.03] in place of 2.00 h, and costs 1.00"),
        ((36000, 35000, 37000), (18000, 17000, 19000), 10.0, "takes 5.0 h [4.7, 5.3] in place of 10.0 h, and costs 50"),
    ],
)
def test_what_becomes_of_a_job_is_told_in_figures_that_differ(
    before: tuple, after: tuple, price: float | None, said: str
) -> None:
    """A job is never told to take as long as before, or to cost as much, where it does not; intervals have two ends."""
    known = {"parts": {}, "steps": 9, "price_per_hour": price, "currency": "USD"}
    was = Projection(seconds=before[0], low=before[1], high=before[2], **known)
    takes = Projection(seconds=after[0], low=0.0, high=9e9, beside=after[1:], **known)
    told = change_of_job(was, takes)
    figures = re.findall(r"([\d.]+) (?:min |h )?\[([\d.]+), ([\d.]+)\](?: USD)? in place of ([\d.]+)", told)

    assert told.startswith(said)
    assert len(figures) == (1 if price is None else 2)
    for middle, low, high, first in figures:
        assert middle != first
        assert float(low) < float(high)


@pytest.mark.parametrize(("left", "cost"), [(2, 1.0), (1, 0.5)])
def test_a_job_on_fewer_devices_pays_for_fewer(left: int, cost: float, job: Settings) -> None:
    """Half the processes at the same pace take half the money; each is one device."""
    noise = measured(*EVEN_BLOCKS, device="cuda", world_size=2)
    changed = replace(noise.treatment, observed={"device": "cuda", "world_size": left})
    after = project(job, noise, None, replace(noise, treatment=changed))
    before = project(job, noise, None)

    assert cost == pytest.approx(after.cost(3600.0) / before.cost(3600.0))
    assert after.seconds == pytest.approx(before.seconds, rel=0.01)


@pytest.mark.parametrize(
    ("observed", "paid"),
    [
        ({"device": "cuda", "devices": 8}, 8),  # nn.DataParallel, or a pipeline within one process
        ({"device": "cuda", "devices": 1, "world_size": 2}, 1),
        ({"device": "cuda", "world_size": 2}, 2),  # a record that does not tell the devices
        ({"device": "cpu", "world_size": 2}, 1),
    ],
)
def test_each_device_is_paid_for_once(observed: dict[str, object], paid: int, job: Settings) -> None:
    """One process may train on several devices, and several processes on one."""
    assert project(job, measured(*EVEN_BLOCKS, **observed), None).devices == paid


@pytest.mark.parametrize(("nodes", "paid"), [([2, 2], 2), ([2, 0], 1), ([], 1)])
def test_each_host_is_paid_for_where_training_runs_on_its_processor(nodes: list[int], paid: int, job: Settings) -> None:
    """Two hosts for an hour cost twice what one does, whether they have a GPU or not."""
    command = Command(words=[], python="", arguments=["train.py"], folder="/", nodes=nodes, processes=sum(nodes))
    found = project(replace(job, command=command), measured(*EVEN_BLOCKS, device="cpu", world_size=sum(nodes)), None)

    assert found.devices == paid


def test_a_job_whose_stalls_are_few_may_take_longer(job: Settings) -> None:
    """Three waits of 10 s in 1,800 steps of 0.1 s are a seventh of the time, and may as well come twice as often.

    The interval holds that. Waits that are even, or as many as leave no doubt, widen it by little.
    """
    few, many, even = (np.full(1800, 0.0) for _ in range(3))
    few[[100, 700, 1500]] = 10.0
    many[np.random.default_rng(0).choice(1800, 100, replace=False)] = 0.3
    even += 30 / 1800
    wider = []
    for waits in (few, many, even):
        steps = Steps(position=[8 * i for i in range(1800)], phases={"data": list(waits), "forward": [0.1] * 1800})
        trial = replace(STARTED, steps=[steps], observed={})
        known = baseline_facts(ComparisonRecord(baseline=trial, treatment=STARTED, pairs=EVEN.pairs), [steps])
        found = project(job, EVEN, None, stalls=replace(known.stall_factors, mean=1.0), drift=STEADY)
        wider.append(found.high / found.seconds - 1)

    assert wider[0] > 0.15
    assert wider[1] < 0.1
    assert wider[2] < 0.04


def test_a_job_that_evaluates_at_length_is_known_as_well_as_its_evaluations(job: Settings) -> None:
    """Three of 80 to 120 s each make the job take a minute more or less, however even its steps are."""
    scatter, even = (
        project(job, EVEN, EventRecord(seconds={"evaluate": seconds}), drift=STEADY)
        for seconds in ([100.0, 80.0, 120.0], [100.0, 100.0, 100.0])
    )

    assert scatter.seconds == pytest.approx(even.seconds)
    assert [even.low, even.high] == pytest.approx([even.seconds] * 2, rel=0.001)
    assert [scatter.low, scatter.high] == pytest.approx([scatter.seconds - 60, scatter.seconds + 60], rel=0.001)
