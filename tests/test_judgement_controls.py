"""Negative controls: a phase that a factor can't touch must not move."""

from __future__ import annotations

import numpy as np
import pytest

from simulated import SHARES, around, comparisons, pairs, step_times
from slowstep.factors import ALL_PHASES
from slowstep.judgement.controls import moved_controls, uncovered_waits
from slowstep.records import Pair

NONE = frozenset()
COMPUTE = frozenset({"forward", "backward"})


def with_treatment(changed: dict[str, float], noise: float = 0.005) -> list[Pair]:
    """Pairs whose treatment spends `changed` more or less in some phases, as shares of the baseline's step."""
    seconds = {p: s + changed.get(p, 0.0) for p, s in SHARES.items()}
    total = sum(seconds.values())
    return pairs(around(1 / total - 1, noise), shares={p: s / total for p, s in seconds.items()})


def test_nothing_moves_when_nothing_changed() -> None:
    """Identical arms move no control."""
    assert [] == moved_controls(pairs(around(0.0)), NONE)


def test_data_loading_four_times_slower_is_noticed() -> None:
    """`torch.compile` can't make data loading four times slower; when it seems to, the reader is told so."""
    (moved,) = moved_controls(with_treatment({"data": 0.3}), COMPUTE)

    assert ("data", 4.0) == (moved.phase, pytest.approx(moved.ratio, rel=0.01))
    assert "data wait took 4.00 times its time, which this factor can't cause" == str(moved)


@pytest.mark.parametrize(
    ("changed", "moved"),
    [
        pytest.param({"backward": -0.25, "data": 0.15}, [], id="less than the passes lost"),
        pytest.param({"backward": -0.25, "data": 0.25}, [], id="all that they lost"),
        pytest.param({"backward": -0.25, "host_to_device": 0.15}, [], id="a copy"),
        pytest.param({"backward": -0.15, "data": 0.3}, ["data"], id="more than they lost"),
        pytest.param({"backward": 0.15, "data": 0.3}, ["data"], id="both grew"),
        pytest.param({"backward": -0.2, "data": -0.09}, ["data"], id="both shrank"),
        pytest.param({"backward": 0.25, "data": -0.08}, [], id="covered by longer passes"),
        pytest.param({"backward": 0.05, "data": -0.09}, ["data"], id="shrank by more than they grew"),
        pytest.param({"backward": -0.25, "optimizer": 0.15}, ["optimizer"], id="no wait"),
    ],
)
def test_a_wait_may_take_over_what_the_touched_phases_lost(changed: dict[str, float], moved: list[str]) -> None:
    """Loader workers that just kept up are waited for once the passes are shorter; only more than that is no effect."""
    assert moved == [m.phase for m in moved_controls(with_treatment(changed), COMPUTE)]


def test_a_wait_that_nothing_overlaps_is_a_control_as_any_other() -> None:
    """Where the process that trains fetches its batches itself, no shorter pass makes them four times slower."""
    four_times = with_treatment({"backward": -0.35, "data": 0.3})

    assert [] == moved_controls(four_times, COMPUTE)
    assert ["data"] == [m.phase for m in moved_controls(four_times, COMPUTE, overlaps=False)]


def test_a_wait_is_held_against_its_factor_by_an_interval() -> None:
    """Passes that scatter so much that they may have lost as much as the wait grew by void nothing."""
    found = with_treatment({"data": 0.1, "backward": -0.05}, noise=0.25)

    assert [] == moved_controls(found, COMPUTE)


def test_a_wait_that_was_uncovered_is_told_with_its_size() -> None:
    """Whoever made the passes quicker learns that the loader is the limit now."""
    (told,) = uncovered_waits(with_treatment({"backward": -0.25, "data": 0.15}), COMPUTE)

    assert ("data", 0.15) == (told.phase, pytest.approx(told.growth, rel=0.01))
    assert str(told).startswith("data wait grew by 15 % of the baseline's step")
    assert "hides part of the gain" in str(told)


@pytest.mark.parametrize(
    ("changed", "touches"),
    [
        pytest.param({}, COMPUTE, id="nothing changed"),
        pytest.param({"backward": -0.25}, COMPUTE, id="the wait stayed"),
        pytest.param({"data": 0.15}, COMPUTE, id="nothing became quicker"),
        pytest.param({"backward": -0.25, "data": 0.15}, COMPUTE | {"data"}, id="the factor acts on the wait"),
    ],
)
def test_no_wait_is_called_uncovered_otherwise(changed: dict[str, float], touches: frozenset[str]) -> None:
    """A wait that grew for another reason says nothing of what the change brings without it."""
    assert [] == uncovered_waits(with_treatment(changed), touches)


def test_a_control_that_became_faster_has_moved_too() -> None:
    """Something else changed as well when an untouched phase takes half its time."""
    assert ["backward"] == [m.phase for m in moved_controls(with_treatment({"backward": -0.22}), frozenset({"data"}))]


def test_a_touched_phase_is_no_control() -> None:
    """What the factor can touch may move as it likes."""
    assert [] == moved_controls(with_treatment({"data": 0.3}), frozenset({"data"}))
    assert [] == moved_controls(with_treatment({"data": 0.3}), ALL_PHASES)


def test_a_few_percent_are_caches_and_clocks() -> None:
    """A control that moves by 5 % voids nothing."""
    assert [] == moved_controls(with_treatment({"backward": 0.05 * SHARES["backward"]}), frozenset({"data"}))


def test_a_ratio_of_two_tiny_times_means_nothing() -> None:
    """A phase of 2 % that takes a third longer is less than a percent of the step, and voids nothing."""
    assert [] == moved_controls(with_treatment({"host_to_device": 0.007}), frozenset({"data"}))


def test_a_large_change_may_move_its_neighbours_a_little() -> None:
    """Nearly half of the step is gone, and a neighbour took a little less: warmer caches, and no other cause."""
    assert [] == moved_controls(with_treatment({"backward": -0.4, "optimizer": -0.03}), frozenset({"backward"}))
    assert ["optimizer"] == [
        m.phase
        for m in moved_controls(with_treatment({"backward": -0.04, "optimizer": -0.03}), frozenset({"backward"}))
    ]


def test_more_work_in_a_block_moves_no_control() -> None:
    """A treatment that does the same work in half the time by doing half of everything is compared per work done."""
    assert [] == moved_controls(pairs(around(0.05)), NONE)


def test_noise_rarely_moves_a_control() -> None:
    """With no true difference, controls void few comparisons even where block times scatter by a tenth."""
    rng = np.random.default_rng(6)
    times = step_times(rng, 200, sd=0.2, correlation=0.9)

    voided = [c for c in comparisons(rng, times) if moved_controls(c[:7], NONE)]

    assert len(voided) <= 0.05 * 200
