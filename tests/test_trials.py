"""Trials in real processes: what ends one is a result, blocks are what was asked for, and nothing survives."""

from __future__ import annotations

import itertools
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

import workloads_for_tests as w
from asking import compare
from family import wait
from slowstep.environment.limits import Quota
from slowstep.environment.machine import this_machine
from slowstep.factors import Arm
from slowstep.judgement.stopping import StopRule
from slowstep.launch.trial_process import TrialEnded, TrialProcess
from slowstep.measure import other_processes, pool
from slowstep.measure.block_samples import Needs, common, sizes
from slowstep.measure.interleaved import InterleavedComparison
from slowstep.measure.live_trial import LiveTrial
from slowstep.measure.local import LocalMeasurer
from slowstep.measure.measurer import ComparisonRequest
from slowstep.measure.pool import TrialPool
from slowstep.measure.turns import draw_first_sides
from slowstep.measure.warm_up import warmed_up
from slowstep.processes.cpu_times import CpuTimes
from slowstep.records import Block, ComparisonRecord, Memory, Pair, Status, TrialRecord, Work, identity
from slowstep.settings.schema import Budget
from slowstep_probe.trial.messages import BlockDone, Failed, Observe, Observed, Profile, Ready

Make = Callable[..., Arm]
GIB = 2**30
SOON = 30.0
"""Seconds in which a process that must go is gone; in practice it takes one or two."""

ROOT = Path(__file__).resolve().parents[1]


def healthy(record: ComparisonRecord, pairs: int) -> bool:
    """Whether both trials lived and gave all pairs."""
    return (Status.OK, Status.OK, pairs) == (record.baseline.status, record.treatment.status, len(record.pairs))


# -- pairs and blocks --


def test_blocks_have_the_steps_that_were_asked_for(measurer: LocalMeasurer, arm: Make, budget: Budget) -> None:
    """Every block of both arms holds the same number of optimizer steps and the work of that many batches."""
    record = compare(measurer, arm(w.Tiny), arm(w.Twin), pairs=3)

    assert healthy(record, 3)
    blocks = [block for pair in record.pairs for block in (pair.baseline, pair.treatment)]
    assert {budget.block_steps_min} == {block.steps for block in blocks}
    assert {budget.block_steps_min * w.BATCH} == {block.work.samples for block in blocks}
    assert {None} == {block.work.useful_tokens for block in blocks}


def test_order_comes_from_the_recorded_seed(measurer: LocalMeasurer, arm: Make, budget: Budget) -> None:
    """The order of a comparison can be told from its seed; another budget.seed gives another."""
    record = compare(measurer, arm(w.Tiny), arm(w.Twin), pairs=6)
    again = compare(measurer, arm(w.Tiny), arm(w.Twin), pairs=6)
    with LocalMeasurer(replace(budget, seed=1), measurer.logs) as other:
        elsewhere = compare(other, arm(w.Tiny), arm(w.Twin), pairs=1)

    found = [pair.first for pair in record.pairs]
    assert [("baseline", "treatment")[side] for side in islice(draw_first_sides(record.seed), 6)] == found
    assert found == [pair.first for pair in again.pairs]
    assert record.seed == again.seed != elsewhere.seed


def test_pairs_end_when_they_are_enough(measurer: LocalMeasurer, arm: Make) -> None:
    """No pair is measured beyond what decides."""
    record = compare(measurer, arm(w.Tiny), arm(w.Twin), stop=StopRule(max_pairs=9, minimum_effect=1e300, looks=(2,)))

    assert healthy(record, 2)


def test_baseline_stays_from_one_comparison_to_the_next(measurer: LocalMeasurer, arm: Make) -> None:
    """The same baseline process serves two comparisons; each treatment has its own, which ends with it."""
    measurer.pool.keep_only(set())  # one that had served for long would be launched again
    first = compare(measurer, arm(w.Tiny), arm(w.Twin), pairs=1)
    second = compare(measurer, arm(w.Tiny), arm(w.Twin), pairs=1)

    pids = [t.observed["pid"] for r in (first, second) for t in (r.baseline, r.treatment)]
    assert pids[0] == pids[2]
    assert len(set(pids)) == 3
    assert [pids[0]] == [t.process.pid for t in measurer.pool.live.values()]


def together(measurer: LocalMeasurer, baseline: Arm, treatments: Sequence[Arm], pairs: int) -> list[ComparisonRecord]:
    """The records of comparisons that are measured together, so many pairs of each, in the order of the treatments."""
    stop = StopRule(max_pairs=pairs, looks=())
    requests = [ComparisonRequest(baseline=baseline, treatment=arm, stop=stop) for arm in treatments]
    found = dict(measurer.compare_together(requests, lambda number, pairs: None))
    return [found[number] for number in range(len(treatments))]


def test_comparisons_together_share_the_blocks_of_the_baseline(measurer: LocalMeasurer, arm: Make) -> None:
    """A round has one block of the baseline, and each comparison pairs it with its own treatment in its own order."""
    with LocalMeasurer(measurer.budget, measurer.logs) as own:
        treatments = [arm(w.OtherTexts), arm(w.OtherTexts, {"training_arguments.seed": 7})]
        records = together(own, arm(w.Texts), treatments, pairs=4)
        launches, measured = own.pool.launches, own.measured_seconds

    assert [True, True] == [healthy(record, 4) and same_samples(record) for record in records]
    assert [p.baseline for p in records[0].pairs] == [p.baseline for p in records[1].pairs]
    assert 3 == launches
    blocks = [p.baseline for p in records[0].pairs] + [p.treatment for record in records for p in record.pairs]
    assert measured == pytest.approx(sum(block.seconds for block in blocks))
    for record in records:
        drawn = [("baseline", "treatment")[side] for side in islice(draw_first_sides(record.seed), 4)]
        assert drawn == [p.first for p in record.pairs]


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which trials are started at the same time, whatever this one is."""
    monkeypatch.setattr(pool, "this_machine", lambda: replace(this_machine(), cores=4))


def test_treatments_are_built_at_the_same_time(measurer: LocalMeasurer, arm: Make, four_cores: None) -> None:
    """Those of a round, beside the baseline, and all of them with it when they are launched anew; each is still warmed
    up by itself."""
    seeds = [arm(w.Built, {"training_arguments.seed": seed}) for seed in (1, 2)]
    stop = StopRule(max_pairs=2, minimum_effect=1e-300, looks=(1,), launch_share=0, futility=0)
    requests = [ComparisonRequest(baseline=arm(w.Tiny), treatment=one, stop=stop) for one in seeds]
    built: list[list[list[float]]] = []

    def look(_: int, __: Sequence[Pair]) -> None:
        live = [trial.record for trial in own.pool.live.values()]
        built.append([record.observed["built"] for record in live if record.arm == "Built"])

    with LocalMeasurer(replace(measurer.budget, launches=2), measurer.logs) as own:
        records = dict(own.compare_together(requests, look))
        assert own.pool.launches == 6

    assert [True, True] == [healthy(record, 2) for record in records.values()]
    assert [[0, 1]] * 2 == [[pair.launch for pair in record.pairs] for record in records.values()]
    assert len({begin for look in built for begin, _ in look}) == 4
    assert all(max(begin for begin, _ in look) < min(end for _, end in look) for look in built if look)


def test_one_that_fails_as_it_is_built_leaves_the_others(measurer: LocalMeasurer, arm: Make, four_cores: None) -> None:
    """Its record says how, it is launched once, and those that were built beside it get all their pairs."""
    treatments = [arm(w.Unbuilt), arm(w.Twin), arm(w.Twin, {"training_arguments.seed": 7})]
    with LocalMeasurer(measurer.budget, measurer.logs) as own:
        failed, *fine = together(own, arm(w.Tiny), treatments, pairs=2)
        assert own.pool.launches == 4

    assert (failed.treatment.status, "no such width" in failed.treatment.reason) == (Status.CRASHED, True)
    assert [True, True] == [healthy(record, 2) for record in fine]


def test_one_that_lacks_memory_beside_others_is_launched_by_itself(
    measurer: LocalMeasurer, arm: Make, four_cores: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it takes while others are built says nothing of what it takes later."""
    killed = list[int]()

    def ready(process: TrialProcess) -> Ready:
        if process.arm.label == "Twin" and not killed:
            killed.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)
        return plain(process)

    plain = TrialProcess.ready
    monkeypatch.setattr(TrialProcess, "ready", ready)
    with LocalMeasurer(measurer.budget, measurer.logs) as own:
        records = together(own, arm(w.Tiny), [arm(w.Twin), arm(w.Labours)], pairs=2)
        assert own.pool.launches == 4

    assert [True, True] == [healthy(record, 2) for record in records]


def test_one_that_is_not_built_again_fails_once(
    measurer: LocalMeasurer, arm: Make, four_cores: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All arms are launched anew, and one does not come up: its comparison fails with that, and the other goes on."""
    plain, built = TrialProcess.ready, set[Path]()

    def ready(process: TrialProcess) -> Ready:
        if process.arm.label == "Twin":
            built.add(process.log)
        if process.arm.label == "Twin" and len(built) == 2:
            process.end()
            raise TrialEnded(Failed(status=Status.CRASHED, reason="not this time"))
        return plain(process)

    monkeypatch.setattr(TrialProcess, "ready", ready)
    stop = StopRule(max_pairs=2, minimum_effect=1e-300, looks=(1,), launch_share=0, futility=0)
    requests = [
        ComparisonRequest(baseline=arm(w.Tiny), treatment=one, stop=stop) for one in (arm(w.Twin), arm(w.Labours))
    ]
    with LocalMeasurer(replace(measurer.budget, launches=2), measurer.logs) as own:
        failed, fine = (record for _, record in sorted(own.compare_together(requests, lambda number, pairs: None)))
        assert own.pool.launches == 6

    assert (failed.treatment.status, failed.treatment.reason) == (Status.CRASHED, "not this time")
    assert healthy(fine, 2)


def test_a_failure_is_that_of_one_comparison(measurer: LocalMeasurer, arm: Make) -> None:
    """A treatment that crashes has a record that says so, and its neighbours in the rounds get all their pairs."""
    with LocalMeasurer(measurer.budget, measurer.logs) as own:
        crashed, fine = together(own, arm(w.Tiny), [arm(w.Raises), arm(w.Twin)], pairs=3)

    assert Status.CRASHED is crashed.treatment.status
    assert crashed.treatment.log_tail
    assert healthy(fine, 3)


def test_a_baseline_that_ends_between_rounds_is_launched_anew_with_all(
    measurer: LocalMeasurer, arm: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it gives no answer once a comparison is decided: pairs of two launches are not told as those of one."""
    plain, asked = LiveTrial.look_again, list[LiveTrial]()

    def hangs_once(trial: LiveTrial) -> None:
        asked.append(trial)
        if len(asked) == 1:
            raise TrialEnded(Failed(status=Status.TIMED_OUT, reason="no answer"))
        plain(trial)

    monkeypatch.setattr(LiveTrial, "look_again", hangs_once)
    stops = [StopRule(max_pairs=pairs, looks=()) for pairs in (2, 4)]
    requests = [
        ComparisonRequest(baseline=arm(w.Tiny), treatment=treatment, stop=stop)
        for treatment, stop in zip((arm(w.Twin), arm(w.Twin, {"training_arguments.seed": 7})), stops, strict=True)
    ]
    with LocalMeasurer(measurer.budget, measurer.logs) as own:
        found = dict(own.compare_together(requests, lambda number, pairs: None))

    assert healthy(found[0], 2)
    assert healthy(found[1], 4)
    assert [0, 0, 1, 1] == [pair.launch for pair in found[1].pairs]


def test_a_change_that_does_not_come_up_again_ends_as_failed(
    measurer: LocalMeasurer, arm: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its baseline had to be launched anew, and no other comparison was left: what was decided before stands."""
    plain, asked = TrialPool.launch, list[LiveTrial]()
    other = arm(w.Twin, {"training_arguments.seed": 7})

    def hangs(trial: LiveTrial) -> None:
        asked.append(trial)
        raise TrialEnded(Failed(status=Status.TIMED_OUT, reason="no answer"))

    def launch(pool: TrialPool, what: Arm, *given: object, **more: object) -> LiveTrial:
        if asked and what == other:
            raise TrialEnded(Failed(status=Status.CRASHED, reason="no second time"))
        return plain(pool, what, *given, **more)

    monkeypatch.setattr(LiveTrial, "look_again", hangs)
    monkeypatch.setattr(TrialPool, "launch", launch)
    requests = [
        ComparisonRequest(baseline=arm(w.Tiny), treatment=treatment, stop=StopRule(max_pairs=pairs, looks=()))
        for treatment, pairs in ((arm(w.Twin), 2), (other, 4))
    ]
    with LocalMeasurer(measurer.budget, measurer.logs) as own:
        found = dict(own.compare_together(requests, lambda number, pairs: None))

    assert asked
    assert healthy(found[0], 2)
    assert (Status.CRASHED, "no second time") == (found[1].treatment.status, found[1].treatment.reason)


@pytest.mark.exhaustive
def test_what_has_other_steps_is_measured_by_itself(measurer: LocalMeasurer, arm: Make) -> None:
    """Batches of another size would make all blocks longer, so they leave the rounds, and are compared all the same."""
    with LocalMeasurer(measurer.budget, measurer.logs) as own:
        larger = {"training_arguments.per_device_train_batch_size": 6}
        records = together(own, arm(), [arm(None, EAGER), arm(None, larger), arm(None, {"peft.r": 4})], pairs=2)

    assert [True] * 3 == [healthy(record, 2) for record in records]
    assert records[0].pairs[0].baseline == records[2].pairs[0].baseline != records[1].pairs[0].baseline


def test_a_twin_is_a_second_process_of_the_same_arm(measurer: LocalMeasurer, arm: Make) -> None:
    """The A/A comparison pairs two launches of one arm."""
    record = compare(measurer, arm(w.Tiny), arm(w.Tiny), pairs=3, twin=True)

    assert healthy(record, 3)
    assert record.baseline.observed["pid"] != record.treatment.observed["pid"]


def test_launches_are_spread_over_the_looks(measurer: LocalMeasurer, arm: Make) -> None:
    """After each look both arms are launched anew, as often as the budget allows, and the pairs say which launch."""
    with LocalMeasurer(replace(measurer.budget, launches=3), measurer.logs) as own:
        record = compare(own, arm(w.Tiny), arm(w.Twin), pairs=5, looks=(1, 2, 4))
        launches = own.pool.launches

    assert healthy(record, 5)
    assert [0, 1, 2, 2, 2] == [pair.launch for pair in record.pairs]
    assert 2 * 3 == launches


def test_an_answer_that_nobody_waited_for_is_not_taken_for_another(
    measurer: LocalMeasurer, arm: Make, monkeypatch: Any
) -> None:
    """A cell that was interrupted in a block (Jupyter's stop button) leaves its answer behind: the trial is ended."""
    one = measurer.pool.launch(arm(w.Tiny), "interrupted")
    with monkeypatch.context() as broken:
        broken.setattr(one.process.guarded, "receive", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            one.block(2 * w.BATCH)
    again = measurer.pool.launch(arm(w.Tiny), "interrupted")

    assert again is not one
    assert again is measurer.pool.launch(arm(w.Tiny), "interrupted")
    assert again.block(4 * w.BATCH).steps == 4


def test_no_launch_follows_the_last_pair(measurer: LocalMeasurer, arm: Make) -> None:
    """A look that decides ends the comparison; nothing is launched for pairs that nobody needs."""
    with LocalMeasurer(measurer.budget, measurer.logs) as own:
        compare(own, arm(w.Tiny), arm(w.Twin), stop=StopRule(max_pairs=5, minimum_effect=1e300, looks=(2,)))
        launches = own.pool.launches

    assert 2 == launches


def test_nothing_is_fetched_while_a_trial_waits(measurer: LocalMeasurer, arm: Make) -> None:
    """Loader workers stand still between blocks, so that the next block finds no batch that it did not wait for."""
    trial = measurer.pool.launch(arm(w.Draws, {"training_arguments.dataloader_num_workers": 2}), "draws")
    drawn = Path(trial.record.observed["drawn"])
    grown = []
    for _ in range(2):
        trial.block(2 * trial.step_samples)
        time.sleep(0.1)
        before = drawn.stat().st_size
        time.sleep(0.6)
        grown.append(drawn.stat().st_size - before)
    behind = drawn.stat().st_size
    trial.block(4 * trial.step_samples)

    assert [0, 0] == grown
    assert drawn.stat().st_size > behind


EXHAUSTIVE = pytest.mark.exhaustive
EAGER = {"model.attn_implementation": "eager"}


def same_samples(record: ComparisonRecord) -> bool:
    """Whether the blocks of each pair hold the same samples, and those of different pairs others."""
    works = [[(b.work.samples, b.work.useful_tokens) for b in (pair.baseline, pair.treatment)] for pair in record.pairs]
    return all(b == t for b, t in works) and len({b for b, _ in works}) > 1


@pytest.mark.parametrize(
    ("both", "change"),
    [
        pytest.param({}, {"training_arguments.dataloader_num_workers": 2}, id="workers"),
        pytest.param({}, {"training_arguments.gradient_accumulation_steps": 3}, id="accumulation", marks=EXHAUSTIVE),
        pytest.param({"dataset.padding": "packing", "dataset.tokenize": "once"}, EAGER, id="packed", marks=EXHAUSTIVE),
        pytest.param({}, {"training_arguments.per_device_train_batch_size": 6}, id="batch", marks=EXHAUSTIVE),
        # now and then a batch of one
        pytest.param({"job.samples": 25}, EAGER, id="short batches", marks=EXHAUSTIVE),
        pytest.param({"workload": "plain_loop"}, {"peft.r": 2}, id="plain loop", marks=EXHAUSTIVE),
    ],
)
def test_both_blocks_of_a_pair_train_on_the_same_samples(
    both: dict[str, object], change: dict[str, object], measurer: LocalMeasurer, arm: Make
) -> None:
    """Whatever either arm discards, and in each launch: no arm gains by having drawn the shorter texts."""
    record = compare(measurer, arm(None, both), arm(None, both | change), pairs=4, looks=(2,))

    assert healthy(record, 4)
    assert same_samples(record)


def test_a_short_last_batch_makes_no_block_longer(measurer: LocalMeasurer, arm: Make) -> None:
    """Workers that start with an epoch of seven steps, the last one short, are measured over one epoch and not two."""
    short = {"job.samples": 25, "dataset.tokenize": "on_the_fly"}
    workers = {"training_arguments.dataloader_num_workers": 2}
    record = compare(measurer, arm(None, short), arm(None, short | workers), pairs=3)

    assert healthy(record, 3)
    assert {7} == {pair.treatment.steps for pair in record.pairs}
    assert {6, 7, 8, 9} >= {pair.baseline.steps for pair in record.pairs}


def test_a_pair_is_measured_again_as_a_whole(arm: Make, budget: Budget, tmp_path: Path, monkeypatch: Any) -> None:
    """When one block was interrupted by other processes, the other is not paired with one of other samples."""
    found = iter([None, "other processes took 30 %", None, None])
    monkeypatch.setattr(other_processes, "between", lambda *_: next(found, None))
    with LocalMeasurer(replace(budget, redo_blocks=3), tmp_path) as own:
        record = compare(own, arm(w.Texts), arm(w.OtherTexts), pairs=2)

    assert healthy(record, 2)
    assert 1 == len(record.redone)
    assert same_samples(record)


@pytest.mark.parametrize("treatments", [1, 2])
def test_a_load_that_stays_is_measured_again_twice(
    arm: Make, budget: Budget, tmp_path: Path, monkeypatch: Any, treatments: int
) -> None:
    """Then its pairs are kept with their mark: to measure on would not make the machine quiet."""
    monkeypatch.setattr(other_processes, "between", lambda *_: "other processes took 60 %")
    with LocalMeasurer(replace(budget, redo_blocks=6), tmp_path) as own:
        arms = [arm(w.Twin, {"training_arguments.seed": seed}) for seed in range(treatments)]
        one = arm(w.Tiny)
        records = together(own, one, arms, 3) if treatments > 1 else [compare(own, one, arms[0], pairs=3)]

    for record in records:
        assert healthy(record, 3)
        # the block that comes first is measured again twice, and so is the other one once its turn comes
        assert 2 <= len(record.redone) <= 4
        assert all(block.interrupted for pair in record.pairs for block in (pair.baseline, pair.treatment))


def test_a_quiet_pair_gives_repetitions_back(arm: Make, budget: Budget, tmp_path: Path, monkeypatch: Any) -> None:
    """A disturbance now and then is measured again each time, as often as the budget says."""
    said = iter(
        ["busy", None, None, None, None] * 6
    )  # one block of each pair, and then both; a quiet one is asked twice
    monkeypatch.setattr(other_processes, "between", lambda *_: next(said, None))
    with LocalMeasurer(replace(budget, redo_blocks=6), tmp_path) as own:
        record = compare(own, arm(w.Tiny), arm(w.Twin), pairs=6)

    assert healthy(record, 6)
    assert 6 == len(record.redone)
    assert not any(block.interrupted for pair in record.pairs for block in (pair.baseline, pair.treatment))


def test_arms_by_turns_train_on_the_same_samples(arm: Make, budget: Budget, tmp_path: Path, monkeypatch: Any) -> None:
    """The one that is launched for its turn trains up to where the other began."""
    monkeypatch.setattr(InterleavedComparison, "_too_big_together", lambda _: True)
    with LocalMeasurer(budget, tmp_path) as own:
        record = compare(own, arm(w.Texts), arm(w.OtherTexts), pairs=4)

    assert healthy(record, 4)
    assert record.by_turns
    assert same_samples(record)


def test_what_an_arm_trains_to_catch_up_is_not_watched(
    arm: Make, budget: Budget, tmp_path: Path, monkeypatch: Any
) -> None:
    """A disturbance counts while a block is measured, and not on the way there, however long that is."""
    watched: list[float] = []
    monkeypatch.setattr(InterleavedComparison, "_too_big_together", lambda _: True)
    monkeypatch.setattr(LiveTrial, "outlived", lambda *_, **__: False)
    with LocalMeasurer(budget, tmp_path) as own:
        monkeypatch.setattr(other_processes, "read", lambda _: CpuTimes(busy=own.steps, own=0, stolen=0, total=0))
        monkeypatch.setattr(other_processes, "between", lambda before, after: watched.append(after.busy - before.busy))
        record = compare(own, arm(w.Tiny), arm(w.Twin), pairs=8)

    assert healthy(record, 8)
    assert max(watched) < 3 * budget.block_steps_min


def test_a_block_knows_how_often_a_quota_stopped_it(
    arm: Make, budget: Budget, tmp_path: Path, monkeypatch: Any
) -> None:
    """The kernel counts for the whole life of a group, and a block's part of that is what it met itself."""
    counted = itertools.count(step=3)

    def read(_: float) -> CpuTimes:
        now = next(counted)
        quota = Quota(cores=1.0, used=None, periods=1000 + 2 * now, used_up=500 + now)
        return CpuTimes(busy=0, own=0, stolen=0, total=0, quotas={"/job": quota})

    monkeypatch.setattr(other_processes, "read", read)
    with LocalMeasurer(budget, tmp_path) as own:
        record = compare(own, arm(w.Tiny), arm(w.Twin), pairs=4)

    blocks = [block for pair in record.pairs for block in (pair.baseline, pair.treatment)]
    assert {(b.quota_periods, b.quota_used_up) for b in blocks} == {(6, 3)}


def test_by_turns_a_pair_begins_as_soon_as_new_launches_can(
    arm: Make, budget: Budget, tmp_path: Path, monkeypatch: Any
) -> None:
    """How far a baseline had trained for others is no matter once it is launched anew."""
    with LocalMeasurer(budget, tmp_path) as own:
        own.pool.launch(arm(w.Tiny), identity(arm(w.Tiny).determinants())).block(500 * w.BATCH)
        before = own.steps
        monkeypatch.setattr(InterleavedComparison, "_too_big_together", lambda _: True)
        record = compare(own, arm(w.Tiny), arm(w.Twin), pairs=6)

    assert healthy(record, 6)
    assert "treatment" in {pair.first for pair in record.pairs}
    assert own.steps - before < 500


@pytest.mark.parametrize(
    ("least", "units", "expected"),
    [
        ((40, 56), (8, 8), 56),
        ((60, 96), (8, 48), 96),
        ((60, 90), (8, 48), 96),
        ((400, 100), (8, 64), 448),
        ((700, 700), (56, 800), 704),  # periods of 7 and 100 steps would need 5600
        ((30.5, 20), (7.3, 8), 30.5),  # packed
    ],
)
def test_blocks_have_a_size_that_suits_both(least: tuple, units: tuple, expected: float) -> None:
    """Enough for each arm and whole units of both, if that is not too many; else whole steps of both."""
    steps = [unit if unit % 1 else 8 for unit in units]

    assert expected == common(least, units, steps)


def test_a_fast_arm_does_not_prolong_the_blocks_of_a_slow_one() -> None:
    """Both blocks together take what two are to take, and meet as many stalls as the baseline has time for."""
    base = Needs(size=40, stalls=0, least=8, unit=8, step=8, start=0)
    fast, slow = replace(base, size=40 * 32, stalls=400), replace(base, size=4, stalls=10)

    assert 80 == common(sizes(base, fast), (8, 8))
    assert 104 == common(sizes(replace(base, stalls=100), fast), (8, 8))
    assert 8 == common(sizes(base, slow), (8, 8))
    assert 40 == common(sizes(base, base, slow), (8, 8))
    assert 64 == common(sizes(base, replace(base, least=64, size=64)), (8, 8))


def test_blocks_that_last_far_too_long_are_made_shorter(arm: Make, budget: Budget) -> None:
    """Their length was planned by steps that were all short ones; blocks that last as long as planned stay."""
    request = ComparisonRequest(baseline=arm(w.Tiny), treatment=arm(w.Twin), stop=StopRule(max_pairs=5))
    pool = SimpleNamespace(budget=replace(budget, minutes=2, block_seconds=1.0))
    comparison = InterleavedComparison(pool, request)
    planned = Needs(size=400, stalls=800, least=8, unit=8, step=8, start=0)
    comparison.needs = {0: planned, 1: planned}
    short, long = (Block(steps=1, seconds=s, phases={}, step_seconds=[s], work=Work(samples=400)) for s in (4.0, 40.0))

    comparison.add_pair(Pair(first="baseline", baseline=short, treatment=short))
    assert comparison.needs == {0: planned, 1: planned}
    comparison.add_pair(Pair(first="baseline", baseline=long, treatment=long))
    assert [(n.size, n.stalls) for n in comparison.needs.values()] == [(40, 80), (40, 80)]


def test_a_pair_begins_where_both_have_whole_steps_unless_that_is_far_off() -> None:
    """Nobody trains 900 samples more for batches of 50 and 64 to begin with the same one."""
    assert 704 == common((700, 650), (8, 64), spare=320)
    assert 700 == common((700, 650), (50, 64), spare=320)


def test_what_the_minutes_cut_short_says_so(arm: Make, budget: Budget, tmp_path: Path) -> None:
    base, stop = arm(w.Tiny), StopRule(max_pairs=5)
    request = ComparisonRequest(baseline=base, treatment=arm(w.Twin), stop=stop)
    with LocalMeasurer(replace(budget, minutes=7), tmp_path) as own:
        own.deadline = time.monotonic()
        cut, unseen = own.compare(request), own.observe(base, 3, 60.0)
        own.deadline = math.inf
        whole, seen = own.compare(request), own.observe(base, 3, 60.0)

    assert (len(cut.pairs), cut.cut_within, unseen.cut_within) == (3, 7, 7)
    assert (len(whole.pairs), whole.cut_within, seen.cut_within) == (5, None, None)


def test_a_trial_that_does_not_answer_in_the_minutes_is_not_waited_for(
    arm: Make, budget: Budget, tmp_path: Path
) -> None:
    """It has no record, since nothing is known of it: that of a comparison beside it with pairs enough stays. How much
    the run differs from itself is measured however long that takes."""
    base, stop = arm(w.Tiny), StopRule(max_pairs=5)
    hangs, twin = (ComparisonRequest(baseline=base, treatment=arm(it), stop=stop) for it in (w.Hangs, w.Twin))
    alike = ComparisonRequest(baseline=base, treatment=base, stop=stop, twin=True)
    with LocalMeasurer(replace(budget, minutes=0.2), tmp_path) as own:
        own.deadline = time.monotonic() + 2
        assert own.compare(hangs) is None  # not even that it timed out
        known = own.compare(alike)
        own.deadline = math.inf
        after = own.compare(twin)

    assert healthy(known, 3)
    assert healthy(after, 5)


def test_an_arm_that_is_far_ahead_begins_anew(measurer: LocalMeasurer, arm: Make) -> None:
    """A baseline that has served for longer than its launch took is launched again; the treatment begins at 0."""
    base = arm(w.Tiny)
    key = identity(base.determinants())
    measurer.pool.keep_only(set())
    long_ago = measurer.pool.launch(base, key)
    while not long_ago.outlived():
        long_ago.block(1000 * w.BATCH)
    record = compare(measurer, base, arm(w.Twin), pairs=2)

    assert healthy(record, 2)
    assert long_ago.process.pid != measurer.pool.live[key].process.pid


def test_steps_are_counted(measurer: LocalMeasurer, arm: Make, budget: Budget) -> None:
    """What a comparison costs in steps is told: warm-up, what does not count, and blocks."""
    with LocalMeasurer(measurer.budget, measurer.logs) as own:
        trial = own.pool.launch(arm(w.Tiny), "counted")
        begun = own.steps
        block = trial.block(4 * w.BATCH)
        again = own.steps
        trial.block(4 * w.BATCH)

    assert begun == trial.record.warmup_steps
    assert again - begun > block.steps
    assert own.steps - again == trial.discard + block.steps


def test_loader_workers_do_not_count_as_a_disturbance(measurer: LocalMeasurer, arm: Make) -> None:
    """What an arm's own workers compute is the arm's, also after they ended with their epoch."""
    trial = measurer.pool.launch(arm(w.Labours, {"training_arguments.dataloader_num_workers": 2}), "with workers")
    seconds = []
    for _ in range(20):
        trial.block(4 * trial.step_samples)
        seconds.append(trial.process.cpu_seconds())
    measurer.pool.end("with workers")

    assert sorted(seconds) == seconds  # ten blocks make an epoch, and no time is lost with its workers


# -- what goes wrong is a result --


def fails(measurer: LocalMeasurer, arm: Make, workload: type) -> TrialRecord:
    """The record of a treatment that fails; the baseline beside it must not."""
    record = compare(measurer, arm(w.Tiny), arm(workload), pairs=2)
    assert record.baseline.status is Status.OK
    assert record.pairs == []
    return record.treatment


@pytest.mark.parametrize(
    ("workload", "status", "reason", "tail"),
    [
        (w.Raises, Status.CRASHED, "KeyError: 'no such column'", "in fail"),
        (w.Exits, Status.CRASHED, "exited with status 3", ""),
        (w.ExitsFull, Status.OUT_OF_MEMORY, "its log ends: Error out of memory at line 59", ""),
        (w.Segfaults, Status.CRASHED, "ended by SIGSEGV", "in fail"),
        (w.LosesItself, Status.LOSS_NOT_FINITE, "the loss is nan", ""),
        (w.NotHere, Status.NOT_TESTABLE, "flux capacitors are not installed", ""),
        (w.FillsDevice, Status.OUT_OF_MEMORY, "CUDA out of memory. Tried to allocate 20.00 GiB", ""),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_failure_is_a_status_with_its_evidence(
    measurer: LocalMeasurer, arm: Make, workload: type, status: Status, reason: str, tail: str
) -> None:
    """However a trial ends, the comparison is a record that says how and why, with the end of its log."""
    treatment = fails(measurer, arm, workload)

    assert status is treatment.status
    assert reason in treatment.reason
    assert tail in treatment.log_tail


def test_a_full_device_is_told_with_peak_and_limit(measurer: LocalMeasurer, arm: Make) -> None:
    """Out of memory is never a bare word: what was taken and what was to be had stand beside it."""
    memory = fails(measurer, arm, w.FillsDevice).memory

    assert 0 < memory.host < memory.limit


def test_a_failed_baseline_is_a_record_too(measurer: LocalMeasurer, arm: Make) -> None:
    """A baseline that can't train ends its comparison, with the treatment not started."""
    record = compare(measurer, arm(w.Raises), arm(w.Tiny), pairs=1)

    assert record.baseline.status is Status.CRASHED
    assert record.treatment.status is Status.NOT_TESTABLE
    assert record.treatment.reason == "was not started"


def test_after_the_deadline_no_more_is_measured_than_an_answer_needs(arm: Make, budget: Budget, tmp_path: Path) -> None:
    """A comparison has its interval, and nothing is observed."""
    with LocalMeasurer(budget, tmp_path) as measurer:
        measurer.deadline = 0.0
        record = compare(measurer, arm(w.Tiny), arm(w.Twin), pairs=9)
        observed = measurer.observe(arm(w.Tiny), 50, 10.0)

    assert len(record.pairs) == 3
    assert not observed.trial.steps


def test_after_the_deadline_it_is_looked_at_for_a_while(arm: Make, budget: Budget, tmp_path: Path) -> None:
    """Long steps that come seldom, as those in which a policy acts, may hold most of the time: five steps hold none."""
    asked: list[Profile] = []
    with LocalMeasurer(budget, tmp_path) as measurer:
        measurer.deadline = 0.0
        trial = measurer.pool.launch(arm(w.Tiny), identity(arm(w.Tiny).determinants()))
        ask = trial.process.ask
        trial.process.ask = lambda request, *given: asked.append(request) or ask(request, *given)
        measurer.profile(arm(w.Tiny), tmp_path / "trace.json.gz")

    assert [one.looks > 5 * one.steps for one in asked if isinstance(one, Profile)] == [True]


def test_a_hang_ends_with_the_stack_in_the_log(arm: Make, budget: Budget, tmp_path: Path) -> None:
    """A trial that stops answering is ended after its time, and its log names the line where it stood."""
    with LocalMeasurer(replace(budget, step_timeout_seconds=1.5), tmp_path) as measurer:
        treatment = fails(measurer, arm, w.Hangs)

    assert treatment.status is Status.TIMED_OUT
    assert "no answer within" in treatment.reason
    assert "wait_for_what_never_comes" in treatment.log_tail


def test_a_trial_that_takes_too_much_memory_is_ended(arm: Make, budget: Budget, tmp_path: Path) -> None:
    """Beyond budget.memory_limit_gib of host memory: a status with peak and limit, before the machine runs out."""
    with LocalMeasurer(replace(budget, memory_limit_gib=1.5), tmp_path) as measurer:
        treatment = fails(measurer, arm, w.Eats)

    assert treatment.status is Status.OUT_OF_MEMORY
    assert 1.5 * GIB == treatment.memory.limit < treatment.memory.host
    assert "1.5 GiB are allowed" in treatment.reason


def kill_twin(measurer: LocalMeasurer, first: int, last: int) -> Callable[[list[Pair]], bool]:
    """Kill the treatment, if it is in memory, after each of the pairs from `first` to `last`."""

    def after_pair(pairs: list[Pair]) -> bool:
        twins = [t for t in measurer.pool.live.values() if t.record.arm == "Twin"]
        if twins and first <= len(pairs) <= last:
            os.kill(twins[0].process.pid, signal.SIGKILL)
        return False

    return after_pair


def test_an_arm_killed_beside_the_other_is_tried_alone(measurer: LocalMeasurer, arm: Make) -> None:
    """Memory that ran out while both arms were resident is no verdict on one: they go on by turns."""
    record = compare(measurer, arm(w.Tiny), arm(w.Twin), pairs=4, on_pairs=kill_twin(measurer, 2, 2))

    assert record.by_turns
    assert len(record.pairs) == 4
    assert record.treatment.status is Status.OK


def test_a_kill_from_outside_keeps_the_finished_pairs(measurer: LocalMeasurer, arm: Make) -> None:
    """SIGKILL, as the kernel sends it when memory runs out: told as such, and what was measured before stays."""
    record = compare(measurer, arm(w.Tiny), arm(w.Twin), pairs=12, on_pairs=kill_twin(measurer, 2, 12))

    assert 2 <= len(record.pairs) < 12
    assert record.treatment.status is Status.OUT_OF_MEMORY
    assert "SIGKILL" in record.treatment.reason


def test_measuring_goes_on_after_failures(measurer: LocalMeasurer, arm: Make) -> None:
    """After trials that failed in several ways, two healthy arms are compared as if nothing had been."""
    for workload in (w.Segfaults, w.Exits, w.NotHere):
        fails(measurer, arm, workload)
    record = compare(measurer, arm(w.Tiny), arm(w.Twin), pairs=2)

    assert healthy(record, 2)


# -- memory for one at a time --


def test_arms_too_big_together_are_relaunched_by_turns(arm: Make, budget: Budget, tmp_path: Path) -> None:
    """Two arms that the limit allows one at a time are never resident together, and the pairs come all the same."""
    resident = []

    def look(_: Sequence[Pair]) -> None:
        resident.append(len(measurer.pool.live))

    with LocalMeasurer(replace(budget, memory_limit_gib=1.6), tmp_path) as measurer:
        record = compare(measurer, arm(w.Holds), arm(w.HoldsToo), pairs=2, on_pairs=look)

    assert healthy(record, 2)
    assert record.by_turns
    assert max(resident) == 1


@pytest.mark.parametrize("ways", ["together", "one by one"])
def test_a_device_for_one_process_at_a_time_is_taken_by_turns(ways: str, measurer: LocalMeasurer, arm: Make) -> None:
    """That another arm has it is no failure of the one that comes second."""
    baseline, treatment = arm(w.WantsDevice), arm(w.WantsDeviceToo)
    with LocalMeasurer(measurer.budget, measurer.logs) as own:
        if ways == "together":
            (record, _) = together(own, baseline, [treatment, arm(w.Twin)], pairs=2)
        else:
            record = compare(own, baseline, treatment, pairs=2)

    assert healthy(record, 2)
    assert record.by_turns


@pytest.mark.parametrize(
    ("steps", "pace"),
    [
        ([0.03, 20.0, 0.03], 0.03),  # it was compiled after its first step
        ([0.9, 0.03, 0.03], 0.03),  # it was compiled in its first step
        ([0.03, 0.3, 0.3], 0.3),  # its first batches lay ready
        ([0.03, 0.03], 0.03),
    ],
)
def test_what_happens_once_is_no_pace(steps: list[float], pace: float) -> None:
    """Blocks are made as long as the pace says, so that one of seconds a step would let them be far too short."""
    assert pace == pytest.approx(warmed_up(answering(steps)).step_seconds)


def answering(steps: list[float], facts: dict[str, Any] | None = None, waits: float = 0.0, **done: Any) -> Any:
    """A trial's process whose chunks take `steps`, in seconds a step; each waits so long for data."""
    asked = iter(steps)

    def ask(request: Any, timeout: float) -> Any:
        if isinstance(request, Observe):
            return Observed(facts=facts or {})
        phases, seconds = {"data": waits}, next(asked) * request.steps
        block = Block(steps=request.steps, seconds=seconds, phases=phases, step_seconds=[], work=Work(samples=8))
        return BlockDone(block=block, memory=Memory(), losses=[], trained=request.steps, position=8, **done)

    process = SimpleNamespace(
        ask=ask, budget=Budget(), host_peak=lambda: 1, limit=10, arm=Arm(label="x", settings=None)
    )
    process.ready = lambda: Ready(startup={"first step boundary": 4.0}, device="cpu", periodic_events=[])
    process.startup_seconds, process.started, process.log = 1.0, 0.0, Path("x.log")
    return process


@pytest.mark.parametrize(("devices", "known"), [(["GPU-a", "GPU-b"], 2), ([], None)])
def test_a_trial_knows_how_many_devices_it_trains_on(devices: list[str], known: int | None) -> None:
    """Its processes say little of that: one may train on several."""
    assert warmed_up(answering([0.03] * 3, devices=devices)).record.observed.get("devices") == known


@pytest.mark.parametrize(
    ("waits", "facts", "known"),
    [
        (2.5, {}, 2.5),
        (0.1, {"world_size": 2}, 4.0 + 3.0),  # the first step of several ranks is over before they are ready
        (0.0, {}, 4.0 + 3.0),  # it was fetched before
    ],
)
def test_a_trial_knows_how_long_it_waited_for_its_first_batch(waits: float, facts: dict, known: float) -> None:
    """Loader workers start then: it takes as long each time that they do, at the most."""
    record = warmed_up(answering([3.0, 0.03, 0.03], facts, waits)).record

    assert record.first_wait == pytest.approx(known)


@pytest.mark.parametrize(("alone", "grows", "goes_on"), [(False, 1, False), (False, 0, True), (True, 1, True)])
def test_a_device_that_is_too_full_for_two_is_no_slow_arm(alone: bool, grows: int, goes_on: bool) -> None:
    """An allocator that frees what it kept and tries again waits for the device. Alone, that is the arm's own cost."""
    block = Block(steps=5, seconds=1.0, phases={}, step_seconds=[0.2] * 5, work=Work(samples=40))
    done = BlockDone(block=block, memory=Memory(retries=2 + grows), losses=[], trained=5, position=80)
    process = SimpleNamespace(ask=lambda request, timeout: done, budget=Budget(), host_peak=lambda: 1, limit=10)
    process.bytes_fetched = lambda: None
    trial = LiveTrial(
        process=process,
        record=TrialRecord(arm="x", status=Status.OK),
        device="cuda",
        periodic_events=[],
        step_seconds=0.2,
        step_samples=8,
        period=1,
        discard=1,
        position=40,
        warm=40,
        began=0.0,
        trained=5,
        retries=2,
    )
    if goes_on:
        assert block == trial.block(40, alone=alone)
    else:
        with pytest.raises(TrialEnded) as ended:
            trial.block(40, alone=alone)
        assert (True, []) == (ended.value.failed.may_fit_alone, trial.timed)
    assert block == trial.block(40, alone=False)  # nothing has grown since


def test_arms_that_fit_stay_resident(measurer: LocalMeasurer, arm: Make) -> None:
    """Small arms take turns without being built again."""
    resident = []
    record = compare(
        measurer,
        arm(w.Tiny),
        arm(w.Twin),
        pairs=2,
        on_pairs=lambda _: resident.append(len(measurer.pool.live)),
    )

    assert not record.by_turns
    assert {2} == set(resident)


# -- nothing survives --


def test_closing_ends_every_process_and_its_folder(
    arm: Make, budget: Budget, tmp_path: Path, alive: Callable[[list[int]], list[int]]
) -> None:
    """After close no trial, no loader worker and no trial's folder is left."""
    workers = {"training_arguments.dataloader_num_workers": 2}
    with LocalMeasurer(budget, tmp_path) as measurer:
        measurer.pool.launch(arm(w.Tiny, workers), "one")
        measurer.pool.launch(arm(w.Twin, workers), "two")
        trials = [t.process for t in measurer.pool.live.values()]
        pids = [p.pid for t in trials for p in psutil.Process(t.guard).children(recursive=True)]
        pids += [t.guard for t in trials]

    assert len(pids) > 2
    assert wait(lambda: not alive(pids))
    assert [t.folder for t in trials if t.folder.exists()] == []


@pytest.mark.exhaustive
def test_a_script_ends_that_forgot_to_close(tmp_path: Path, alive: Callable[[list[int]], list[int]]) -> None:
    """Python's exit ends a resident trial instead of waiting for it.

    That trial waited for the imports as the first of all: the parts of its start are no more than there was.
    """
    code = (
        "import time; began = time.perf_counter()\n"
        "from pathlib import Path; from slowstep.settings import load; from slowstep.factors import Arm\n"
        "from slowstep.measure.local import LocalMeasurer\n"
        f"settings = load(Path({str(ROOT / 'params' / 'smoke.yaml')!r})).settings\n"
        f"measurer = LocalMeasurer(settings.budget, Path({str(tmp_path)!r}))\n"
        "trial = measurer.pool.launch(Arm(label='baseline', settings=settings), 'one')\n"
        "start = trial.record.startup\n"
        "print(start['imports'], sum(start.values()), time.perf_counter() - began, trial.process.pid)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=120)
    imports, start, wall, pid = map(float, shown.stdout.split())

    assert 0 < imports < start <= wall
    assert wait(lambda: not alive([int(pid)]))
    assert list(tmp_path.glob("slowstep-trial-*")) == []


def test_the_warm_interpreter_touches_no_device() -> None:
    """A CUDA driver initialised before the fork is lost to every trial; bitsandbytes would do it when imported."""
    code = [
        "import sys, torch",
        "from slowstep.launch.warm_interpreter import ALWAYS, DESCRIBED",
        "from slowstep_probe.processes.server import preload",
        "assert not preload([*ALWAYS, *DESCRIBED])['failed']",
        "print('bitsandbytes' in sys.modules, torch.cuda.is_initialized())",
        "import peft.import_utils",
        "print(peft.import_utils.is_bnb_available())",
    ]
    shown = subprocess.run([sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, check=True)

    assert shown.stdout.split() == ["False", "False", "True"]


def test_what_a_step_frees_is_kept_for_the_next() -> None:
    """Even large blocks, and where glibc was told to return them: taken anew they cost a page fault every 4 KiB."""
    code = """
import ctypes, resource, sys
from slowstep_probe.heap import settle
settled = settle(sys.argv[1])
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def step():
    blocks = [libc.malloc(40 * 2**20) for _ in range(4)]
    for block in blocks:
        ctypes.memset(block, 1, 40 * 2**20)
    for block in blocks:
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(settled, -step() + step())
"""
    environment = os.environ | {"MALLOC_TRIM_THRESHOLD_": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    said = {
        way: subprocess.check_output([sys.executable, "-c", code, way], env=environment, text=True).split()
        for way in ("kept", "returned")
    }

    assert ["kept", "returned"] == [said[way][0] for way in ("kept", "returned")]
    assert int(said["kept"][1]) < 1000 < 40_000 < int(said["returned"][1])  # of 40960 pages


def test_a_trial_says_what_becomes_of_freed_memory(measurer: LocalMeasurer, arm: Make) -> None:
    """As its settings ask: kept, unless the run is to be seen as glibc would have it."""
    record = compare(measurer, arm(w.Tiny), arm(w.Tiny, {"freed_memory": "returned"}), pairs=1)

    assert ("kept", "returned") == (
        record.baseline.observed["freed_memory"],
        record.treatment.observed["freed_memory"],
    )


@pytest.mark.parametrize("freed_memory", ["kept", "returned"])
def test_launches_lie_differently_in_memory(freed_memory: str, measurer: LocalMeasurer, arm: Make) -> None:
    """Forked from one server, all launches of an arm would have the same luck. Two may have it by chance."""
    same, names = arm(w.Tiny, {"freed_memory": freed_memory}), [f"launch {i}" for i in range(4)]
    heaps = {measurer.pool.launch(same, name).record.observed["heap"] for name in names}
    measurer.pool.keep_only(measurer.pool.live.keys() - set(names))

    assert len(heaps) > 1
