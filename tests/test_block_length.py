"""The length of a block: what a pair tells for its time, over simulated machines of known drift and noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from simulated import block, pairs
from slowstep.judgement.block_length import LONG_BLOCKS, LONGEST_SECONDS, SHORTEST_SECONDS, block_length, prolonged
from slowstep.judgement.stopping import StopRule
from slowstep.records import Block, Pair

STEP = 0.1
"""Seconds of a step."""


def machine(drift: float, step_noise: float, number: int, seed: int, steps: int = 10) -> list[Pair]:
    """Pairs of equal arms. A block drifts as a whole, and its steps differ; both are standard deviations of d."""
    rng = np.random.default_rng(seed)

    def measured(work: np.ndarray) -> Block:
        noise = rng.normal(0, drift / math.sqrt(2)) + rng.normal(0, step_noise / math.sqrt(2), steps)
        return block([float(s) for s in work * STEP * np.exp(noise)])

    found = []
    for _ in range(number):
        work = rng.lognormal(0, 0.3, steps)  # the same samples for both blocks
        found.append(Pair(first="baseline", baseline=measured(work), treatment=measured(work)))
    return found


def price(seconds: float, drift: float, step_noise: float, turn: float) -> float:
    """The variance of the mean after a second of pairs."""
    return 2 * (drift**2 + step_noise**2 * STEP / seconds) * (seconds + turn)


@pytest.mark.parametrize("drift", [0.01, 0.03, 0.1])
@pytest.mark.parametrize("step_noise", [0.03, 0.14])
@pytest.mark.parametrize("turn", [0.1, 0.5, 3.0])
def test_a_block_costs_little_more_than_the_best_one(drift: float, step_noise: float, turn: float) -> None:
    """With the five pairs of an A/A comparison, the price of what they tell is near that of the best length."""
    lengths = np.geomspace(SHORTEST_SECONDS, max(LONGEST_SECONDS, turn), 60)
    least = min(price(b, drift, step_noise, turn) for b in lengths)
    chosen = [block_length(machine(drift, step_noise, 5, seed), turn).seconds for seed in range(60)]

    assert np.mean([price(b, drift, step_noise, turn) for b in chosen]) < 1.35 * least


@pytest.mark.parametrize(("drift", "step_noise", "shorter"), [(0.003, 0.02, True), (0.1, 0.14, False)])
def test_a_quiet_machine_has_short_blocks(drift: float, step_noise: float, shorter: bool) -> None:
    """Where the first looks decide, a block is no longer than they need; where many pairs are needed, it tells most."""
    alike = machine(drift, step_noise, 5, seed=2)
    best, needed = (block_length(alike, 0.3, effect, steps_min=5).seconds for effect in (None, 0.05))

    assert needed < best / 2 if shorter else needed == best


def test_the_same_work_is_no_noise() -> None:
    """Samples of unlike length make steps unlike in both blocks alike, which a longer block does not mend."""
    found = block_length(machine(0.02, 0.05, 200, seed=1), 0.5)

    assert found.step_noise == pytest.approx(0.05, rel=0.1)
    assert found.drift == pytest.approx(0.02, rel=0.25)
    assert found.seconds == pytest.approx(math.sqrt(0.05**2 * STEP * 0.5) / 0.02, rel=0.3)


def test_nothing_is_made_of_too_few_pairs() -> None:
    """Two pairs, or blocks of one step, tell nothing of drift and noise."""
    assert block_length(machine(0.02, 0.05, 2, seed=1), 0.5) is None
    assert block_length(machine(0.02, 0.05, 5, seed=1, steps=1), 0.5) is None


@pytest.mark.parametrize(("scatter", "anew"), [(0.001, True), (0.2, False)])
def test_arms_are_launched_anew_where_their_launches_decide(scatter: float, anew: bool) -> None:
    """After nine quiet pairs of one launch its own offset is what is unknown; after nine noisy ones the scatter is."""
    rng = np.random.default_rng(3)
    gains = np.exp(rng.normal(0, scatter, 9)) - 1
    quiet = [replace(pair, launch=0) for pair in pairs(gains)]

    assert StopRule(max_pairs=30).needs_new_launches(quiet) is anew
    assert not StopRule(max_pairs=30).needs_new_launches(quiet[:8])  # there is no look after eight pairs
    assert StopRule(max_pairs=30, launch_share=0).needs_new_launches(quiet)


@pytest.mark.parametrize(("mean", "anew"), [(0.0, False), (0.025, True)])
def test_no_launch_comes_before_a_look_that_decides_without_it(mean: float, anew: bool) -> None:
    """After three quiet pairs of a level without a gain, two more of the same launch refute it, and take less time.

    Where the mean lies so high that a launch could explain it, only launches decide.
    """
    quiet = [replace(pair, launch=0) for pair in pairs([mean - 0.01, mean, mean + 0.01])]

    assert StopRule(max_pairs=30).needs_new_launches(quiet)
    assert StopRule(max_pairs=30, minimum_effect=0.05).needs_new_launches(quiet) is anew


@pytest.mark.parametrize("seconds", [0.25, 4.0, 30.0])
@pytest.mark.parametrize("minutes", [2.0, 5.0, 60.0, None])
def test_blocks_wait_for_rare_stalls_as_long_as_the_minutes_allow(seconds: float, minutes: float | None) -> None:
    """A comparison's fewest pairs leave most of the minutes to others, unless its blocks take longer anyway."""
    longest = prolonged(seconds, minutes)

    assert seconds <= longest <= LONG_BLOCKS * max(seconds, 1.0)
    if minutes:
        assert longest == seconds or 2 * 3 * longest <= 60 * minutes / 5 + 1e-9
    assert prolonged(seconds, 1e9) == prolonged(seconds, None)
