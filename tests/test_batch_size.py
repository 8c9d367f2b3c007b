"""The search for the batch size that is worth having."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slowstep import batch_size
from slowstep.investigation.batch_size import find_batch
from slowstep.investigation import open_investigation
from slowstep.settings import Settings, override
from slowstep.investigation.findings import BatchSize, worth_having


class Bench:
    """Stands in for an investigation whose throughput by batch size is known."""

    def __init__(self, settings: Settings):
        self.settings, self.measured = settings, []

    def keep(self, found: list, name: str) -> list:
        """Nothing was really measured."""
        return found


def search(quick: Settings, monkeypatch: pytest.MonkeyPatch, rate: dict[int, float], fits: int) -> list[BatchSize]:
    """The search on a device that holds batches up to `fits` and trains them at `rate`, the last one beyond."""

    def measure(_: object, value: int) -> BatchSize:
        known = max((v for v in rate if v <= value), default=4)
        return BatchSize(value=value, ratio=rate[known] if value <= fits else None, too_big=value > fits)

    monkeypatch.setattr(batch_size, "_measure", measure)
    settings = override(quick, {"training_arguments.per_device_train_batch_size": 4})
    return find_batch(Bench(replace(settings, budget=replace(settings.budget, find_batch=True))))


def test_a_plateau_ends_the_search(quick: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight is faster and sixteen is not: eight it is, though far more would fit."""
    tried = search(quick, monkeypatch, {4: 1.0, 8: 1.5, 16: 1.52}, fits=1000)

    assert [4, 8, 16] == [s.value for s in tried]
    assert worth_having(tried, 0.05).value == 8


def test_out_of_memory_is_closed_in_on(quick: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faster and faster until it no longer fits: between 32 and 64 the search finds one that does."""
    tried = search(quick, monkeypatch, {4: 1.0, 8: 1.5, 16: 2.0, 32: 2.5, 40: 2.8}, fits=50)

    assert [4, 8, 16, 32, 48, 56, 64] == [s.value for s in tried]
    assert [s.value for s in tried if s.ratio is None] == [56, 64]
    assert worth_having(tried, 0.05).value == 48


def test_a_run_that_is_too_large_is_told_the_smallest_that_does(
    quick: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight brings nothing more, two is as fast, one is not: two it is."""
    tried = search(quick, monkeypatch, {1: 0.8, 2: 0.99, 4: 1.0, 8: 1.01}, fits=1000)

    assert [1, 2, 4, 8] == [s.value for s in tried]
    assert worth_having(tried, 0.05).value == 2


def test_a_size_is_really_measured_or_really_too_large(tmp_path: Path) -> None:
    """On the trainer: eight samples have a throughput, and ten thousand at once don't fit into three GiB."""
    overrides = ["dataset.padding=max_length", "budget.memory_limit_gib=3", "budget.block_seconds=0.05"]
    inv = open_investigation("smoke.yaml", overrides, str(tmp_path))
    try:
        eight, too_large = (batch_size._measure(inv, value) for value in (8, 10_000))
    finally:
        inv.close()

    assert (8, False) == (eight.value, eight.too_big)
    assert eight.ratio > 0
    assert (None, True) == (too_large.ratio, too_large.too_big)
    assert "GiB" in too_large.measured.verdict.reason


def test_nothing_is_searched_unless_asked(quick: Settings) -> None:
    """The budget decides."""
    assert [] == find_batch(Bench(replace(quick, budget=replace(quick.budget, find_batch=False))))
