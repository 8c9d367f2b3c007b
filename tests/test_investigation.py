"""The order in which a budget is spent, and what the final choice rests on, over comparisons whose outcome is known."""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulated import SHARES, block, pairs, record, steps_of
from simulated_measurer import SimulatedMeasurer, Truth
from slowstep.batch.cleanup import forget_unfinished
from slowstep.batch.measuring import Concluded
from slowstep.batch.measuring import measured as measured_whole
from slowstep.factors import Arm, Contrast, comparison_family
from slowstep.final.choice import choose
from slowstep.final.decision import decision_of
from slowstep.investigation import NotMeasured, open_lab, read_investigation
from slowstep.investigation.evidence import Evidence
from slowstep.investigation.lab import Lab
from slowstep.investigation.minutes import spent_seconds
from slowstep.investigation.order import least_seconds, most_promising_first, most_seconds
from slowstep.investigation.results import INTERRUPTED, NotebookRun, Summary, drawn_at_once
from slowstep.investigation.sections_to_answer import sections_to_answer
from slowstep.investigation.together import MOST_TOGETHER, next_comparisons
from slowstep.judgement.devices import Peak
from slowstep.judgement.verdict import Outcome
from slowstep.measure.measurer import ComparisonRequest, OnPairsOf
from slowstep.records import ComparisonRecord, EventRecord, ObservationRecord, ProfileRecord, Steps, identity
from slowstep.report.prose import conclusion
from slowstep.settings import Loaded, Settings, override
from slowstep.settings.sections import FINAL, TESTED

ASKED = {
    "data_loading": {"tokenize": ["once"]},
    "gradient_checkpointing": {"gradient_checkpointing": [False]},
    "sequence_length": {},
    "compute": {},
    "overheads": {"max_grad_norm": [0.5], "logging_steps": [100], "include_num_input_tokens_seen": ["all"]},
}


MANY = {
    "data_loading": {"cached_batches": [400], "tokenize": ["once"]},
    "gradient_checkpointing": {"per_device_train_batch_size": [16]},
    "sequence_length": {"lora_r": [2, 4], "lora_dropout": [0.1, 0.2]},
    "compute": {"optim": ["adamw_torch_fused", "sgd"], "attn_implementation": ["eager"]},
    "overheads": {"save_steps": [2000]},
}
"""Levels of which most can share the blocks of their baseline."""


Gain = Callable[[str, str], float]
"""The gain of an arm, by its label and the purpose of its pairs."""


@pytest.fixture
def opened(quick: Settings, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Lab]:
    """Makes a lab of few levels over simulated trials, with records of its own."""

    def make(
        gain: Gain,
        phases: Mapping[str, float] = SHARES,
        stall_every: int = 0,
        levels: Mapping[str, object] = ASKED,
        padding: int = 0,
        **budget: object,
    ) -> Lab:
        settings = override(
            quick, dict(levels) | {f"budget.{k}": v for k, v in ({"find_batch": False} | budget).items()}
        )
        truth = Truth(
            gain=lambda arm, purpose: gain(arm.label, purpose), phases=phases, stall_every=stall_every, padding=padding
        )
        loaded = Loaded(settings=settings, source="quick.yaml", places={})
        outputs = tmp_path_factory.mktemp("outputs")
        return open_lab(loaded, outputs, "test", SimulatedMeasurer(truth, settings.budget))

    return make


def whole(lab: Lab) -> list[Concluded]:
    """All of a lab's investigation, measured by its measurer."""
    return list(
        measured_whole(
            sections_to_answer(lab.settings), lab.loaded, lab.folder.parent, lambda progress: None, lab.measurer
        )
    )


def measured(lab: Lab) -> list[str]:
    """The comparisons that trials were run for, beside that of the baseline with itself."""
    return [name for name, purpose in lab.measurer.asked if name != "baseline"]


@pytest.mark.parametrize("shares", [(0.3, 0.2, 0.1), (0.1, 0.2, 0.3), (0.2, 0.3, 0.1)])
def test_what_could_bring_most_is_measured_first(opened: Callable[..., Lab], shares: tuple) -> None:
    """Each of three levels can only remove the time of one phase; the budget goes to the largest first."""
    names = {"other": "include_num_input_tokens_seen=all", "optimizer": "max_grad_norm=0.5", "log": "logging_steps=100"}
    phases = dict(zip(names, shares, strict=True))
    lab = opened(lambda name, purpose: 0.0, {"forward": 0.4} | phases)

    lab.test("overheads")

    assert [names[phase] for phase in sorted(phases, key=lambda p: -phases[p])] == measured(lab)


def test_the_plan_measures_for_all_notebooks_what_they_then_find(opened: Callable[..., Lab]) -> None:
    """What undoes something switched on comes first, then the largest bound; the notebooks measure nothing more.

    Clipping is semantics, which the file does not allow, so it counts half.
    """
    phases = {"forward": 0.4, "other": 0.2, "data": 0.15, "optimizer": 0.15, "log": 0.1}
    lab = opened(lambda name, purpose: 0.0, phases, minutes=1e3)

    lab.pursue()
    planned = measured(lab)
    for section in ASKED:
        lab.test(section)

    bounded = ["include_num_input_tokens_seen=all", "max_grad_norm=0.5"]
    assert planned[0] == "gradient_checkpointing=false"
    assert "logging_steps=100" in planned
    assert [name for name in planned if name in bounded] == bounded
    assert measured(lab) == planned


def rounds_of(lab: Lab) -> list[list[str]]:
    """Pursue a lab's plan, and return the names of the comparisons that were asked for together."""
    asked: list[list[str]] = []
    plain = lab.measurer.compare_together

    def noted(requests: Sequence[ComparisonRequest], on_pairs: OnPairsOf) -> Iterator[tuple[int, ComparisonRecord]]:
        asked.append([request.treatment.label for request in requests])
        return plain(requests, on_pairs)

    lab.measurer.compare_together = noted
    lab.pursue()
    return asked


def test_the_plan_measures_in_rounds_what_shares_a_baseline(opened: Callable[..., Lab]) -> None:
    """Saving has to happen beside each block of its comparison, and another batch has other steps: both stay alone."""
    lab = opened(lambda name, purpose: 0.0, {"forward": 0.2, "data": 0.3, "optimizer": 0.3}, levels=MANY)
    asked = rounds_of(lab)

    together = {name for names in asked for name in names}
    assert max(map(len, asked)) == MOST_TOGETHER
    assert {"save_steps=2000", "per_device_train_batch_size=16"} <= {*measured(lab)} - together
    assert len(measured(lab)) == len({*measured(lab)})
    assert {"cached_batches=400", "optim=adamw_torch_fused"} <= together


def test_loader_levels_wait_for_the_ceiling(opened: Callable[..., Lab]) -> None:
    """What rests on the cached-batch ceiling is in no round before that is known."""
    phases = {"forward": 0.3, "data": 0.3, "other": 0.3}
    lab = opened(lambda name, purpose: 0.3 if "cached" in name else 0.0, phases, levels=MANY)
    (first,) = rounds_of(lab)

    assert "cached_batches=400" in first
    assert "tokenize=once" not in first
    assert "tokenize=once" in measured(lab)


@pytest.mark.parametrize("wait", [0.01, 0.3])
def test_each_loader_level_waits_for_the_ceiling_and_is_tried(wait: float, opened: Callable[..., Lab]) -> None:
    """A wait of a hundredth refutes more workers, unless making batches also slows down all that runs beside it."""
    workers = {"data_loading": {"cached_batches": [400], "dataloader_num_workers": [1, 2]}}
    lab = opened(
        lambda name, purpose: 0.3 if "cached" in name or "workers" in name else 0.0,
        {"forward": 0.4, "data": wait, "other": 0.3},
        levels=MANY | workers,
    )
    asked = rounds_of(lab)
    tried = measured(lab)

    levels = {"dataloader_num_workers=1", "dataloader_num_workers=2"}
    assert not any("cached_batches=400" in names and levels & {*names} for names in asked)
    assert levels <= {*tried}
    assert tried.index("cached_batches=400") < min(map(tried.index, levels))


@pytest.mark.parametrize("wait", [0.01, 0.5])
def test_the_ceiling_comes_first_where_steps_are_seen_to_wait(wait: float, opened: Callable[..., Lab]) -> None:
    """A wait of a hundredth promises nothing, so that an update of a tenth comes before its ceiling."""
    lab = opened(
        lambda name, purpose: 0.0, {"forward": 0.8 - wait, "data": wait, "optimizer": 0.1}, levels=MANY, minutes=1e3
    )
    _ = lab.baseline
    families = [comparison_family(lab.settings, section, lab.machine) for section in ("data_loading", "compute")]
    names = [one.name for one in most_promising_first([c for family in families for c in family], lab.evidence)]

    assert (names.index("cached_batches=400") < names.index("optim=adamw_torch_fused")) == (wait > 0.1)


def test_what_needs_longer_blocks_shares_no_rounds(opened: Callable[..., Lab]) -> None:
    """Blocks hold whole periods of logging: with one in 100 steps, each round would wait for 100 steps of all."""
    lab = opened(
        lambda name, purpose: 0.0,
        {"log": 0.3, "data": 0.2, "forward": 0.1},
        levels=MANY | {"overheads": ASKED["overheads"]},
    )
    together = [name for names in rounds_of(lab) for name in names]

    assert "logging_steps=100" in measured(lab)
    assert "logging_steps=100" not in together
    assert "cached_batches=400" in together


def test_what_undoes_one_thing_and_changes_another_waits_for_its_turn(opened: Callable[..., Lab]) -> None:
    """Checkpointing left on is cheap to find out; with another batch beside it, it is one cell of a matrix."""
    asked = {"gradient_checkpointing": [False], "per_device_train_batch_size": [16]}
    lab = opened(lambda name, purpose: 0.0, levels={"gradient_checkpointing": asked}, minutes=1e3)
    _ = lab.baseline
    family = comparison_family(lab.settings, "gradient_checkpointing", lab.machine)
    names = [one.name for one in most_promising_first(family, lab.evidence)]

    assert names.index("gradient_checkpointing=false") == 0
    assert names.index("gradient_checkpointing=false + per_device_train_batch_size=16") == len(names) - 1


@pytest.mark.parametrize("padding", [5, 150])
def test_packing_promises_what_padding_costs(padding: int, opened: Callable[..., Lab]) -> None:
    """No bound refutes it. Many such positions are a reason to try it before what nothing is known of."""
    asked = {"data_loading": {"padding": ["packing"]}, "gradient_checkpointing": {"gradient_accumulation_steps": [2]}}
    lab = opened(lambda name, purpose: 0.0, levels=asked, padding=padding, minutes=1e3)
    _ = lab.baseline
    families = [comparison_family(lab.settings, section, lab.machine) for section in asked]
    first = most_promising_first([c for family in families for c in family], lab.evidence)[0].name

    assert ("padding=packing" in first) == (padding == 150)


def test_what_was_spent_counts_where_other_minutes_drop_a_conclusion(opened: Callable[..., Lab]) -> None:
    """A second call with more minutes draws its reports anew; the trials of the first one are not free by that."""
    lab = opened(lambda name, purpose: 0.0, levels=MANY, minutes=1e3)
    lab.test("compute")
    first = lab.conclude()
    lab.evidence.store.drop("summaries", lab.notebook)
    between = spent_seconds(lab.evidence.store, lab.notebook, first.arm, lab.evidence.run_identity)
    again = open_lab(lab.loaded, lab.folder.parent, lab.notebook, lab.measurer)
    again.test("compute")
    second = again.conclude()

    assert first.steps > 0
    assert between == first.seconds == second.seconds
    assert (first.steps, first.measured_seconds) == (second.steps, second.measured_seconds)


def test_where_time_is_short_the_most_promising_has_it_alone(opened: Callable[..., Lab]) -> None:
    """A round of many comparisons takes longer than a pair of one, and would leave all of them undecided."""
    lab = opened(lambda name, purpose: 0.0, levels=MANY, minutes=1e3)
    waiting = {c.name: (c, 1) for c in comparison_family(lab.settings, "compute", lab.machine)}
    _ = lab.baseline
    short = 1.5 * min(most_seconds(contrast, lab.evidence) for contrast, _ in waiting.values())
    one, most = (len(next_comparisons(dict(waiting), lab.evidence, lambda c: True, s)) for s in (short, math.inf))

    assert one == 1 < most


@pytest.mark.parametrize("emulated", [False, True])
def test_16_bit_arithmetic_on_a_processor_is_undone_among_the_first(emulated: bool, opened: Callable[..., Lab]) -> None:
    """Many processors have no instructions for it, and take several times as long: no bound tells that.

    Where what the processor reaches in it says so, it is the very first.
    """
    phases = {"forward": 0.4, "other": 0.2, "data": 0.15, "optimizer": 0.15, "log": 0.1}
    first = opened(lambda name, purpose: 0.0, phases, minutes=1e3)
    on_cpu = {"training_arguments.bf16": True, "training_arguments.use_cpu": True, "compute.precision": ["fp32"]}
    settings = override(first.settings, on_cpu)
    loaded = Loaded(settings=settings, source="quick.yaml", places={})
    cores = first.machine.cores
    peak = Peak(tflops=0.0005 * cores if emulated else 0.05 * cores, bandwidth=20.0, source="measured here")
    truth = replace(first.measurer.truth, peak=peak)
    lab = open_lab(loaded, first.folder.parent, "on_cpu", SimulatedMeasurer(truth, settings.budget))
    lab.pursue()

    assert set(measured(lab)[:2]) == {"gradient_checkpointing=false", "precision=fp32"}
    assert (measured(lab)[0] == "precision=fp32") == emulated


@pytest.mark.parametrize(("emulated", "known"), [(True, True), (False, True), (True, False)])
def test_an_emulated_precision_is_refuted_without_its_trial(
    emulated: bool, known: bool, opened: Callable[..., Lab]
) -> None:
    """By the device's peak in it, where the run's FLOPs are known; and so it says where the records are read alone."""
    sizes = {"matmul_parameters": 1e6, "trained_parameters": 1e6, "layers": 2, "hidden_size": 64, "lora_r": None}
    first = opened(lambda name, purpose: 0.0)
    settings = override(first.settings, {"training_arguments.use_cpu": True, "compute.precision": ["bf16"]})
    loaded = Loaded(settings=settings, source="quick.yaml", places={})
    peaks = [Peak(tflops=tflops, bandwidth=20.0, source="measured here") for tflops in (0.05, 0.002)]
    truth = replace(first.measurer.truth, peak=peaks[0], other_peaks={"bfloat16": peaks[emulated]})
    truth = replace(truth, observed=sizes if known else {})
    lab = open_lab(loaded, first.folder.parent, "on_cpu", SimulatedMeasurer(truth, settings.budget))
    lab.pursue()
    read = Lab(loaded, Evidence(settings, lab.folder, lab.evidence.environment), None)
    said = [{v.name: v for v in one.test("compute")}["precision=bf16"] for one in (lab, read)]

    assert ("precision=bf16" in measured(lab)) == (not emulated or not known)
    assert said[0] == said[1]
    assert ("the products of matrices alone" in said[0].reason) == (emulated and known)


@pytest.mark.parametrize(
    ("changes", "threads", "known"),
    [
        ({}, 8, True),
        ({"process.num_threads": 8}, 8, True),
        ({"process.num_threads": 4}, 8, False),
        ({"processes": 2}, 8, False),
        ({}, None, False),  # a GPU's peak, though the run trains on the processor
    ],
    ids=str,
)
def test_small_products_are_held_against_what_as_many_threads_reach(
    changes: Mapping[str, object], threads: int | None, known: bool, opened: Callable[..., Lab]
) -> None:
    """By the rate that was measured, and not the most that it may be."""
    first = opened(lambda name, purpose: 0.0)
    settings = override(first.settings, {"training_arguments.use_cpu": True, **changes})
    peak = Peak(tflops=0.05, bandwidth=20.0, source="measured here", threads=threads)
    truth = replace(first.measurer.truth, peak=peak)
    loaded = Loaded(settings=settings, source="quick.yaml", places={})
    lab = open_lab(loaded, first.folder.parent, "on_cpu", SimulatedMeasurer(truth, settings.budget))

    assert lab.baseline.facts.product_rate == (pytest.approx(0.05e12) if known else None)


@pytest.mark.parametrize(("minutes", "again"), [(1.0, False), (2.0, True), (None, True)])
def test_events_that_were_cut_are_measured_anew_in_more_minutes(
    minutes: float | None, again: bool, opened: Callable[..., Lab]
) -> None:
    """One save in a minute counts, until there is time for three."""
    store = opened(lambda name, purpose: 0.0).evidence.store
    store.write(EventRecord(seconds={"save": [80.0]}, cut_within=1.0), "events", "e")

    assert forget_unfinished(store, minutes) is again
    assert (store.read(EventRecord, "events", "e") is None) is again


def test_a_plan_without_time_measures_nothing(opened: Callable[..., Lab]) -> None:
    """And what it took is counted in the minutes of the notebooks that follow."""
    late, early = (opened(lambda name, purpose: 0.0, minutes=minutes) for minutes in (1e-6, 1e3))

    late.pursue()
    spent = early.pursue()

    assert measured(late) == []
    assert spent.steps > 0
    assert early.pursue() == spent  # nothing was left to measure


def test_the_baseline_leaves_time_for_hypotheses(opened: Callable[..., Lab]) -> None:
    """When its part of the minutes is over, it takes no more pairs than make an interval, and is watched no longer."""
    late, early = (opened(lambda name, purpose: 0.0, minutes=minutes, noise_pairs=6) for minutes in (1e-6, 1e3))

    assert [len(lab.baseline.record.pairs) for lab in (late, early)] == [3, 6]
    assert [len(lab.evidence.observation.trial.steps) > 0 for lab in (late, early)] == [False, True]


@pytest.mark.parametrize("minutes", [1e-6, 1e3, None])
def test_what_the_minutes_left_undecided_does_not_count_in_more(
    minutes: float | None, opened: Callable[..., Lab]
) -> None:
    """What was decided counts, however few the minutes were; so does all of it in no more of them."""
    lab = opened(lambda name, purpose: 0.01, minutes=1e-6, noise_pairs=6)
    _ = lab.baseline
    lab.judge(comparison_family(lab.settings, "overheads", lab.machine), "by hand")
    before = {name: len(one.pairs) for name, one in records_of(lab, "comparisons", ComparisonRecord).items()}
    observed = set(records_of(lab, "observations", ObservationRecord))

    assert forget_unfinished(lab.evidence.store, minutes) is (minutes != 1e-6)
    kept = records_of(lab, "comparisons", ComparisonRecord)
    assert (set(kept) == set(before)) is (minutes == 1e-6)
    assert set(records_of(lab, "observations", ObservationRecord)) == (observed if minutes == 1e-6 else set())
    assert all(one.cut_within is None for one in kept.values()) is (minutes != 1e-6)
    more = in_minutes(lab, minutes or 1e9)
    assert len(more.baseline.record.pairs) == (3 if minutes == 1e-6 else 6)


@pytest.mark.parametrize("together", [False, True])
def test_a_comparison_goes_on_from_the_pairs_that_fewer_minutes_left(
    together: bool, opened: Callable[..., Lab]
) -> None:
    """None of them is measured twice, alone or in a round, and nothing is left to go on from in the end."""
    lab = opened(lambda name, purpose: 0.05, levels=MANY, minutes=1e-6, noise_pairs=6)
    family = comparison_family(lab.settings, "sequence_length", lab.machine)
    _ = lab.baseline
    lab.judge(family, "by hand")
    before = records_of(lab, "comparisons", ComparisonRecord)
    forget_unfinished(lab.evidence.store, None)
    more = in_minutes(lab, 1e9)
    if together:
        more.pursue()
    more.judge(family, "by hand")
    after = records_of(more, "comparisons", ComparisonRecord)

    assert len(before) > 2
    assert [len(one.pairs) for one in before.values()] == [3] * len(before)
    for name, one in before.items():
        assert [pair.blocks for pair in after[name].pairs[:3]] == [pair.blocks for pair in one.pairs]
        assert len(after[name].pairs) > 3
    assert more.evidence.store.names("unfinished") == []


def records_of(lab: Lab, kind: str, record_type: type) -> dict[str, Any]:
    """All records of a kind, by name."""
    store = lab.evidence.store
    return {name: store.read(record_type, kind, name) for name in store.names(kind)}


def in_minutes(lab: Lab, minutes: float) -> Lab:
    """A lab with the same records, and so many minutes."""
    settings = override(lab.settings, {"budget.minutes": minutes})
    loaded = Loaded(settings=settings, source="quick.yaml", places={})
    return open_lab(loaded, lab.folder.parent, "late", SimulatedMeasurer(lab.measurer.truth, settings.budget))


@pytest.mark.parametrize(
    ("gains", "budget", "part"),
    [
        ({}, 0.05, 0.9),
        ({"gradient_checkpointing=false": 0.3}, 1e3, 1.0),
        ({"gradient_checkpointing=false": 0.3}, 0.05, 0.7),
        ({"max_grad_norm=0.5": 0.3}, 0.05, 0.9),
    ],
    ids=["nothing", "soon_combined", "long_combined", "not_allowed"],
)
def test_only_what_combining_takes_is_kept_of_the_minutes(
    gains: dict[str, float], budget: float, part: float, opened: Callable[..., Lab]
) -> None:
    """Hypotheses may take all but one comparison, which is a tenth at most, unless there is something to combine that
    takes long and is allowed."""
    phases = {"other": 0.3, "forward": 0.3, "optimizer": 0.15}
    first = opened(lambda name, purpose: gains.get(name, 0.0), phases, minutes=1e3)
    first.pursue()
    assert {*gains} <= {*measured(first)}

    assert in_minutes(first, budget).for_hypotheses == pytest.approx(part, abs=0.001)


@pytest.mark.parametrize(("changes", "comparisons"), [(1, 1), (2, 3)])
def test_each_further_change_takes_two_comparisons_more(
    changes: int, comparisons: int, opened: Callable[..., Lab]
) -> None:
    """It is held against the rest, and left out of it; one comparison is kept in any case, and more for one that
    confirms, which is a tenth at most."""
    gains = dict(list({"gradient_checkpointing=false": 0.3, "tokenize=once": 0.2}.items())[:changes])
    first = opened(lambda name, purpose: gains.get(name, 0.0), SHARES, minutes=1e3)
    first.pursue()
    families = [comparison_family(first.settings, section, first.machine) for section in ASKED]
    measured_ones = [c for family in families for c in family if c.name in measured(first)]
    took = {
        c.name: sum(p.baseline.seconds + p.treatment.seconds for p in first.evidence.judged(c, prior).record.pairs)
        for c in measured_ones
        if (prior := first.evidence.prior(c))
    }
    longest = max(took.values())
    each = 0.05 * max(took[name] for name in gains) / longest
    kept = max(0.05, comparisons * each, min(3 * each, 0.1))

    left = in_minutes(first, longest / 60 / 0.05).for_hypotheses
    assert left == pytest.approx(1 - kept, abs=0.01)


@pytest.mark.parametrize(
    ("pairs", "elapsed", "left"),
    [
        (4, 0.4, 1.6),  # all its pairs end before the minutes do
        (4, 80.0, 10.0),
        (1, 30.0, 60.0),  # no comparison ends without an interval
    ],
)
def test_no_more_time_is_told_than_the_minutes_leave(
    pairs: int, elapsed: float, left: float, opened: Callable[..., Lab]
) -> None:
    """A comparison ends with them, whatever the most of its pairs would take."""
    lab = opened(lambda name, purpose: 0.0, SHARES, minutes=1e3)
    lab.measurer.deadline = time.monotonic() + 10

    assert lab._most_left(pairs, 20, elapsed) == pytest.approx(left, rel=0.01)


def test_the_profile_has_time_of_its_own_where_the_rest_of_the_baseline_took_all(opened: Callable[..., Lab]) -> None:
    """It names the lines, and an answer without them is worth little. Observing ends with the minutes."""
    left: dict[str, float] = {}

    class Watched(SimulatedMeasurer):
        def observe(self, arm: Arm, steps: int, seconds: float) -> ObservationRecord:
            left["observing"] = self.deadline - time.monotonic()
            return super().observe(arm, steps, seconds)

        def profile(self, arm: Arm, trace: Path, start: int = 0) -> ProfileRecord:
            left["profile"] = self.deadline - time.monotonic()
            return super().profile(arm, trace, start)

    lab = opened(lambda name, purpose: 0.0, minutes=1e-6)
    lab.measurer = Watched(lab.measurer.truth, lab.settings.budget)
    _ = lab.baseline

    assert left["observing"] < 0 < left["profile"]


def test_what_is_combined_ends_with_the_minutes(opened: Callable[..., Lab]) -> None:
    """When they are over, nothing is asked beyond what is known: which part of a combination is redundant stays open.

    What was found best is still confirmed.
    """
    gains = {"tokenize=once": 0.2, "gradient_checkpointing=false": 0.21}

    def gain(name: str, purpose: str) -> float:
        return max(gains.get(part, 0.0) for part in name.split(" + "))  # one or the other: together no more

    first = opened(gain, minutes=1e3)
    first.pursue()
    lab = in_minutes(first, 1e-6)
    chosen = choose(lab)

    assert chosen.adopted
    assert {purpose for _, purpose in lab.measurer.asked} == {"confirmation"}
    assert {"tokenize=once", "gradient_checkpointing=false"} == set(chosen.verdict.name.split(" + "))


def test_what_was_not_reached_is_read_back_elsewhere(opened: Callable[..., Lab]) -> None:
    """A ceiling that there was no time for is no missing record: a copy of the records says what the first run said."""
    late = opened(lambda name, purpose: 0.0, minutes=1e-6)
    said = late.test("data_loading")
    late.conclude()

    assert [v.reason for v in read_investigation(late.folder).test("data_loading")]
    assert any("not reached" in v.reason for v in said)


@pytest.mark.parametrize(("drawn", "waiting"), [(55.0, 0), (8.0, 16 * drawn_at_once())])
def test_a_report_counts_with_its_kernel(opened: Callable[..., Lab], drawn: float, waiting: int) -> None:
    """The minutes are those on the clock: a report takes time beside what is measured for it, and so will those that
    wait until nothing is left to measure."""
    lab = opened(lambda name, purpose: 0.0, minutes=1.0)
    store, own = lab.evidence.store, identity(lab.arm.determinants())
    store.write(Summary(notebook="00_baseline", arm=own, seconds=5.0), "summaries", "00_baseline")
    store.write(NotebookRun(notebook="00_baseline", status="ok", seconds=drawn), "notebooks", "00_baseline")
    for number in range(waiting):
        store.write(NotebookRun(notebook=f"later_{number}", status=INTERRUPTED), "notebooks", f"later_{number}")

    lab.pursue()

    assert measured(lab) == []


def test_a_report_on_another_run_takes_no_minutes(opened: Callable[..., Lab]) -> None:
    """What was measured and drawn of another baseline was paid for by its own minutes."""
    lab = opened(lambda name, purpose: 0.0, minutes=1.0)
    store = lab.evidence.store
    store.write(Summary(notebook="00_baseline", arm="another", seconds=55.0), "summaries", "00_baseline")
    store.write(NotebookRun(notebook="00_baseline", status="ok", seconds=55.0), "notebooks", "00_baseline")

    lab.pursue()

    assert measured(lab)


def test_all_is_measured_once_by_one_measurer(opened: Callable[..., Lab]) -> None:
    """Every section concludes from the same trials, and reading it back needs no measurer."""
    lab = opened(lambda name, purpose: 0.4 if "checkpointing" in name else 0.0)
    found = {one.section.notebook: one for one in whole(lab)}

    asked = [asked for asked in lab.measurer.asked if not asked[1]]
    levels = [section for section in TESTED if ASKED.get(section.name)]  # a section that lists none is not asked
    assert list(found) == ["00_baseline", *(section.notebook for section in levels), "90_final_config"]
    assert len(asked) == len(set(asked))
    assert found["90_final_config"].choice.adopted
    for section in levels:
        again = read_investigation(lab.folder, section.notebook).test(section.name)
        assert [v.outcome for v in again] == [v.outcome for v in found[section.notebook].verdicts]


def test_a_section_that_fails_stops_no_other(opened: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be measured fails in its own section, with its reason, and the others conclude."""
    lab = opened(lambda name, purpose: 0.0)
    compare = lab.measurer.compare

    def broken(request: ComparisonRequest, *args: object) -> ComparisonRecord:
        if "max_grad_norm" in request.treatment.label:
            raise OSError("no space")
        return compare(request, *args)

    monkeypatch.setattr(lab.measurer, "compare", broken)
    found = {one.section.notebook: one for one in whole(lab)}

    assert isinstance(found["50_overheads"].failed, OSError)
    assert [name for name, one in found.items() if one.failed] == ["50_overheads", "90_final_config"]
    assert "gradient_checkpointing=false" in measured(lab)


def test_what_can_bring_too_little_is_measured_only_if_all_is(opened: Callable[..., Lab]) -> None:
    """A level that could remove one hundredth of the step is refuted by that; `budget.exhaustive` measures it, too."""
    phases = {"forward": 0.5, "other": 0.3, "optimizer": 0.19, "log": 0.01}
    thrifty, thorough = (opened(lambda name, purpose: 0.0, phases, exhaustive=all_of_it) for all_of_it in (False, True))

    verdicts = {v.name: v for v in thrifty.test("overheads")}
    thorough.test("overheads")

    assert "logging_steps=100" not in measured(thrifty)
    assert verdicts["logging_steps=100"].outcome is Outcome.REFUTED
    assert "logging_steps=100" in measured(thorough)


def test_the_winner_is_confirmed_by_pairs_that_did_not_choose_it(opened: Callable[..., Lab]) -> None:
    """A gain that chance gave the pairs that chose is not there in those that confirm, and nothing is adopted."""
    gains = {"tokenize=once": 0.2, "gradient_checkpointing=false": 0.3}

    real = choose(opened(lambda name, purpose: sum(gains.get(part, 0.0) for part in name.split(" + "))))
    lucky = opened(lambda name, purpose: 0.0 if purpose else gains.get(name, 0.0))
    by_luck = choose(lucky)

    assert real.adopted
    assert {"tokenize=once", "gradient_checkpointing=false"} == set(real.verdict.name.split(" + "))
    assert not by_luck.adopted
    assert [Outcome.SUPPORTED] * 2 == [m.verdict.outcome for m in by_luck.allowed]
    assert any(purpose for _, purpose in lucky.measurer.asked)
    assert by_luck.settings.training("gradient_checkpointing") is True


def test_a_section_tells_what_fresh_pairs_say_against_its_finding(opened: Callable[..., Lab]) -> None:
    """Its page and the index say the same of a change, whichever of them a reader opens."""
    lucky = opened(lambda name, purpose: 0.0 if purpose else 0.3 * (name == "gradient_checkpointing=false"))
    (before,) = (v for v in lucky.test("gradient_checkpointing") if v.outcome is Outcome.SUPPORTED)
    final = open_lab(lucky.loaded, lucky.folder.parent, FINAL.notebook, lucky.measurer)
    final.conclude(decision=decision_of(choose(final)))
    (after,) = (v for v in lucky.test("gradient_checkpointing") if v.name == before.name)
    (drawn,) = (m.verdict for m in lucky.measured if m.verdict.name == before.name)
    (kept,) = (m.verdict for m in lucky.found if m.verdict.name == before.name)

    assert after.outcome is drawn.outcome is not Outcome.SUPPORTED
    assert "fresh ones" in after.reason
    assert kept == before
    assert before.title_in_full not in str(conclusion("Recomputation", [after])).partition("\n")[0]


def test_a_comparison_is_measured_once(opened: Callable[..., Lab]) -> None:
    """What two notebooks ask is measured once, and its record serves both; another purpose takes new pairs."""
    lab = opened(lambda name, purpose: 0.3)
    first, second = (lab.test("gradient_checkpointing") for _ in range(2))
    lab.judge([m.contrast for m in lab.measured[:1]], "again", purpose="confirmation")

    assert first == second
    assert ["", "confirmation"] == [purpose for name, purpose in lab.measurer.asked if name == first[0].name]
    assert measured(lab) == [first[0].name] * 2


def test_rare_stalls_are_seen_before_anything_is_refuted(opened: Callable[..., Lab]) -> None:
    """The pairs of the A/A meet no stall and show a wait of 1 %; the observation meets those of every 60th step, and
    data loading is no longer refuted by its bound."""
    quiet = {"data": 0.01, "forward": 0.4, "optimizer": 0.1, "other": 0.05}
    healthy, stalls = (opened(lambda name, purpose: 0.0, quiet, stall_every=n) for n in (0, 60))

    assert Outcome.REFUTED == healthy.test("data_loading")[0].outcome
    assert [] == measured(healthy)
    stalls.test("data_loading")

    assert ["tokenize=once"] == measured(stalls)
    assert ["data"] == [s.phase for s in stalls.suspects]
    assert 0.25 < stalls.baseline.facts.share("data") < 0.4
    assert re.search(r"one step in (5|6)\d is a long one", stalls.suspects[0].why)


def test_too_short_an_observation_refutes_no_wait(opened: Callable[..., Lab]) -> None:
    """Where stalls as rare as the file asks about could have been missed, the wait is tried and not refuted."""
    lab = opened(lambda name, purpose: 0.0, {"data": 0.01, "forward": 0.4}, rarest_stall=10**6, observe_seconds=1)
    lab.test("data_loading")

    assert ["tokenize=once"] == measured(lab)


def test_later_steps_of_the_baseline_correct_the_first(opened: Callable[..., Lab]) -> None:
    """What later comparisons see of the baseline counts the next time that the investigation is opened."""
    lab = opened(lambda name, purpose: 0.0, {"data": 0.01, "forward": 0.4})
    before = lab.baseline.facts.share("data")
    own, store = identity(lab.arm.determinants()), lab.evidence.store
    late = replace(steps_of([block([0.1] * 5, shares={"data": 0.5})], 2000), position=list(range(10**7, 10**7 + 2000)))
    found = record(pairs([0.0] * 3), arms=[own, "another"], environment=lab.evidence.environment)
    store.write(replace(found, baseline=replace(found.baseline, steps=[late])), "comparisons", "later")
    again = open_lab(lab.loaded, lab.folder.parent, "again", lab.measurer)

    assert before < 0.02 < 0.2 < again.baseline.facts.share("data")


def test_a_run_that_was_held_up_at_first_is_known_by_its_later_steps(opened: Callable[..., Lab]) -> None:
    """The same steps take a tenth of the time in a later comparison: their shares are the run's, and no job is
    projected from the seconds of the first ones."""
    job = {"job.epochs": 3, "job.samples": 10**6}
    lab = opened(lambda name, purpose: 0.0, {"data": 0.1, "forward": 0.4}, levels=ASKED | job)
    first = lab.baseline
    own, store = identity(lab.arm.determinants()), lab.evidence.store
    held = max(first.record.baseline.steps, key=len)
    tenth = sum(held.seconds) / len(held) / 10
    quiet = Steps(position=held.position, phases={name: [tenth / 2] * len(held) for name in ("data", "forward")})
    found = record(pairs([0.0] * 3), arms=[own, "another"], environment=lab.evidence.environment)
    store.write(replace(found, baseline=replace(found.baseline, steps=[quiet])), "comparisons", "later")
    again = open_lab(lab.loaded, lab.folder.parent, "again", lab.measurer).baseline

    assert first.projection
    assert first.facts.share("data") < 0.2
    assert again.facts.share("data") > first.facts.share("data")
    assert again.projection is None
    assert again.unprojected.startswith("something else on the machine held the run up")


def test_the_job_may_meet_the_machine_as_slow_as_later_comparisons_did(opened: Callable[..., Lab]) -> None:
    """Another comparison trained the baseline a fifth slower on the same samples: the job's interval reaches there."""
    lab = opened(lambda name, purpose: 0.0, levels=ASKED | {"job.epochs": 3, "job.samples": 10**6})
    first = lab.baseline.projection
    own, store = identity(lab.arm.determinants()), lab.evidence.store
    known = max(lab.baseline.record.baseline.steps, key=len)
    slow = replace(known, phases={name: [1.2 * s for s in column] for name, column in known.phases.items()})
    found = record(pairs([0.0] * 3), arms=[own, "another"], environment=lab.evidence.environment)
    store.write(replace(found, baseline=replace(found.baseline, steps=[slow])), "comparisons", "later")
    again = open_lab(lab.loaded, lab.folder.parent, "again", lab.measurer).baseline.projection

    assert first.high < 1.2 * first.seconds < again.high
    assert again.seconds == pytest.approx(first.seconds)


def test_a_cell_run_twice_changes_nothing(opened: Callable[..., Lab]) -> None:
    """Tests, conclusions and records are the same the second time, and nothing is measured again."""
    lab = opened(lambda name, purpose: 0.3 if "gradient" in name else 0.0)

    def run() -> tuple[object, ...]:
        verdicts = [lab.test(section) for section in ("gradient_checkpointing", "data_loading")]
        summary = lab.conclude()
        records = {p: p.read_text() for p in (lab.folder / "records" / "comparisons").glob("*.json")}
        return verdicts, lab.measured, summary, records, list(lab.measurer.asked)

    assert run() == run()


def test_a_report_drawn_again_stays_what_it_was(opened: Callable[..., Lab]) -> None:
    """Steps and comparisons after a notebook's conclusion change nothing in its report. A new reader sees them."""
    lab = opened(lambda name, purpose: 0.3 if "gradient" in name else 0.0, {"data": 0.01, "forward": 0.4})
    shares, bounds = lab.baseline.facts.shares, lab.rank()
    lab.conclude()
    open_lab(lab.loaded, lab.folder.parent, "another", lab.measurer).test("gradient_checkpointing")
    again, anew = (read_investigation(lab.folder, notebook) for notebook in (lab.notebook, ""))

    assert (shares, bounds) == (again.baseline.facts.shares, again.rank())
    assert len(lab.baseline.rests_on) == len(again.baseline.rests_on) < len(anew.baseline.rests_on)


def test_records_of_another_machine_stay_readable_until_something_is_measured(opened: Callable[..., Lab]) -> None:
    """A copied folder that is opened at home, where other packages are installed, still tells what was measured."""
    lab = opened(lambda name, purpose: 0.0)
    _ = lab.baseline
    elsewhere = replace(lab.evidence.environment, versions={"torch": "1"})
    home = SimulatedMeasurer(lab.measurer.truth, lab.settings.budget)
    home.describe = lambda: elsewhere
    other = open_lab(lab.loaded, lab.folder.parent, "home", home)

    assert read_investigation(lab.folder).evidence.environment == lab.evidence.environment
    _ = other.baseline
    assert read_investigation(lab.folder).evidence.environment == elsewhere


def test_bounds_do_not_depend_on_the_order_of_calls(opened: Callable[..., Lab]) -> None:
    """What is known of a level before its trial is the same whichever section was asked about first."""
    sections = ("data_loading", "overheads", "gradient_checkpointing")
    first, second = (opened(lambda name, purpose: 0.0) for _ in range(2))
    for one, other in zip(sections, reversed(sections), strict=True):
        first.test(one)
        second.test(other)

    assert {v.name: v.bound for v in first.rank()} == {v.name: v.bound for v in second.rank()}


def test_records_are_judged_where_nothing_can_be_measured(opened: Callable[..., Lab], tmp_path: Path) -> None:
    """Copied to another place, records give the same verdicts, and what is missing is said to be missing.

    Their bounds may differ: the baseline's steps of the comparisons are evidence, too, for whoever comes later.
    """
    lab = opened(lambda name, purpose: 0.3 if "gradient" in name else 0.0)
    verdicts = lab.test("gradient_checkpointing")
    folder = shutil.copytree(lab.folder, tmp_path / "elsewhere" / lab.folder.name)
    read = read_investigation(folder)

    again = read.test("gradient_checkpointing")
    assert {(v.name, v.outcome, v.effect) for v in verdicts} == {(v.name, v.outcome, v.effect) for v in again}
    assert again == read.test("gradient_checkpointing")
    with pytest.raises(NotMeasured, match="measure it where the run trains"):
        read.compare(comparison_family(lab.settings, "data_loading", lab.machine)[0], "never measured")


def test_what_is_not_reached_in_time_is_said_to_be_so(opened: Callable[..., Lab]) -> None:
    """Nothing is measured when the minutes are over; with minutes enough the verdicts are those without a limit."""
    gain = {"max_grad_norm=0.5": 0.3}
    hurried, patient, free = (
        opened(lambda name, purpose: gain.get(name, 0.0), minutes=minutes) for minutes in (1e-6, 1e3, None)
    )
    told = [{v.name: v for v in lab.test("overheads")} for lab in (hurried, patient, free)]

    assert measured(hurried) == []
    assert all("not reached within" in v.reason for v in told[0].values() if v.outcome is Outcome.INCONCLUSIVE)
    assert {name: v.outcome for name, v in told[1].items()} == {name: v.outcome for name, v in told[2].items()}
    assert told[2]["max_grad_norm=0.5"].outcome is Outcome.SUPPORTED


@pytest.mark.parametrize(("minutes", "said"), [(1.0, "1 minute"), (2.0, "2 minutes"), (0.5, "0.5 minutes")])
def test_what_was_not_reached_says_so_once(minutes: float, said: str, opened: Callable[..., Lab]) -> None:
    """With the limit in minutes, and nothing else: that it was not measured is no other reason."""
    lab = opened(lambda name, purpose: 0.0, minutes=minutes)
    _ = lab.baseline
    lab.spending.began -= 1e6
    reasons = {v.reason for v in lab.test("overheads") if v.untried}

    assert {f"not reached within {said} (budget.minutes)"} == reasons


def test_a_cell_that_is_interrupted_says_how_it_goes_on(opened: Callable[..., Lab]) -> None:
    """The lines of the library in which it was interrupted tell nobody anything."""

    def interrupted(*_: object) -> float:
        raise KeyboardInterrupt

    lab = opened(interrupted)
    with pytest.raises(KeyboardInterrupt) as told:
        lab.test("compute")

    (line,) = told.value._render_traceback_()
    assert line == "interrupted; finished comparisons are kept: run the cell again to go on"


def test_what_takes_longer_than_is_left_is_not_begun(opened: Callable[..., Lab]) -> None:
    """A comparison takes its fewest pairs at least, and what starts with its change. The first one is begun anyway."""
    levels = {"compute": {"optim": ["adamw_torch_fused"], "torch_compile": [True]}, "overheads": {}}
    lab = opened(lambda name, purpose: 0.0, levels=MANY | levels, minutes=1e3)
    _ = lab.baseline
    compiled, fused = (
        next(c for c in comparison_family(lab.settings, "compute", lab.machine) if name in c.name)
        for name in ("torch_compile", "optim")
    )
    least = least_seconds(compiled, lab.evidence)
    lab.settings = override(lab.settings, {"budget.minutes": 1.0})
    before = _begun_with(lab, 1.0, compiled)
    lab.read_or_measure(lab.evidence.comparison_spec(fused, comparisons=2))

    assert least > least_seconds(fused, lab.evidence) + 29
    assert before
    assert not _begun_with(lab, least - 10.0, compiled)
    assert _begun_with(lab, least + 1.0, compiled)
    assert _begun_with(lab, least - 10.0, fused)


def _begun_with(lab: Lab, left: float, contrast: Contrast) -> bool:
    """Whether a lab would begin a comparison when so many seconds are left for single hypotheses."""
    _ = lab.for_hypotheses  # which knows what was measured
    return lab._is_time_for(contrast, left)
