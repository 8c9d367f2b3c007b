"""The search for the batch size that is worth having."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from simulated_measurer import SimulatedMeasurer, Truth
from slowstep.factors import Arm
from slowstep.investigation import BatchSize, open_investigation, open_lab, worth_having
from slowstep.investigation.batch_size import find_batch
from slowstep.judgement.verdict import Outcome
from slowstep.settings import Loaded, Settings, override

MIB = 2**20
Search = Callable[..., list[BatchSize]]


def batch(arm: Arm) -> int:
    """The batch of an arm."""
    return int(arm.settings.training("per_device_train_batch_size"))


@pytest.fixture
def search(quick: Settings, tmp_path: Path) -> Search:
    """The search on a machine that holds batches up to `fits`, and trains them at `rate`, the last one beyond."""

    def made(rate: dict[int, float], fits: int = 1000, find: bool = True) -> list[BatchSize]:
        settings = override(quick, {"training_arguments.per_device_train_batch_size": 4, "budget.find_batch": find})
        truth = Truth(
            gain=lambda arm, purpose: rate[max((v for v in rate if v <= batch(arm)), default=4)] - 1,
            memory=lambda arm: batch(arm) * MIB,
            memory_limit=fits * MIB,
            noise=0.001,
        )
        loaded = Loaded(settings=settings, source="quick.yaml", places={})
        return find_batch(open_lab(loaded, tmp_path, "test", SimulatedMeasurer(truth, settings.budget)))

    return made


def test_a_plateau_ends_the_search(search: Search) -> None:
    """Eight is faster and sixteen is not: eight it is, though far more would fit."""
    tried = search({4: 1.0, 8: 1.5, 16: 1.52})

    assert [4, 8, 16] == [s.value for s in tried]
    assert worth_having(tried, 0.05).value == 8


def test_out_of_memory_is_closed_in_on(search: Search) -> None:
    """Faster and faster until it no longer fits: between 32 and 64 the search finds one that does."""
    tried = search({4: 1.0, 8: 1.5, 16: 2.0, 32: 2.5, 40: 2.8}, fits=50)

    assert [4, 8, 16, 32, 48, 56, 64] == [s.value for s in tried]
    assert [s.value for s in tried if s.ratio is None] == [56, 64]
    assert worth_having(tried, 0.05).value == 48


def test_a_run_that_is_too_large_is_told_the_smallest_that_does(search: Search) -> None:
    """Eight brings nothing more, two is as fast, one is not: two it is."""
    tried = search({1: 0.8, 2: 0.99, 4: 1.0, 8: 1.01})

    assert [1, 2, 4, 8] == [s.value for s in tried]
    assert worth_having(tried, 0.05).value == 2


def test_a_size_that_noise_flatters_is_not_worth_having(search: Search) -> None:
    """The estimate of eight is half as much again, and its comparison is undecided: the run keeps its own."""
    own, *others = search({4: 1.0, 8: 1.5, 16: 1.52})
    open_ones = [replace(s.measured, verdict=replace(s.measured.verdict, outcome=Outcome.INCONCLUSIVE)) for s in others]
    tried = [own, *(replace(s, measured=one) for s, one in zip(others, open_ones, strict=True))]

    assert worth_having(tried, 0.05).value == 4


def test_nothing_is_searched_unless_asked(search: Search) -> None:
    """The budget decides."""
    assert [] == search({4: 1.0}, find=False)


@pytest.mark.exhaustive
def test_a_size_is_really_measured_or_really_too_large(tmp_path: Path) -> None:
    """On the trainer: from 8,000 samples a doubling does not fit into three GiB, and the search says so."""
    overrides = ["dataset.padding=max_length", "budget.memory_limit_gib=3", "budget.block_seconds=0.05"]
    overrides += ["budget.find_batch=true", "training_arguments.per_device_train_batch_size=8"]
    lab = open_investigation("smoke.yaml", overrides, str(tmp_path))
    try:
        tried = {size.value: size for size in find_batch(lab)}
    finally:
        lab.close()

    assert tried[16].ratio > 0
    for size in tried.values():
        assert (size.ratio is None) == size.too_big
        assert not size.too_big or "GiB" in size.measured.verdict.reason
