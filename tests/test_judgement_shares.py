"""Shares of the time whose long steps come at random or at one distance."""

from __future__ import annotations

import numpy as np
import pytest

from slowstep.judgement.shares import share

COMPUTE = 0.1


def steps(long: np.ndarray, seconds: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The time of a phase that takes so many seconds in the long steps, and that of whole steps."""
    phase = np.where(long, seconds * np.exp(rng.normal(-0.005, 0.1, len(long))), 0.0)
    return phase, phase + COMPUTE * np.exp(rng.normal(0.0, 0.03, len(long)))


def covered(every: int, n: int, at_random: bool) -> tuple[float, float]:
    """How often the interval holds the true share of steps ten times as long, and its width on the mean."""
    rng, seconds = np.random.default_rng(0), 10 * COMPUTE
    true = seconds / (every * COMPUTE + seconds)
    held, widths = 0, []
    for _ in range(300):
        regular = (np.arange(n) + rng.integers(every)) % every == 0
        found = share(*steps(rng.random(n) < 1 / every if at_random else regular, seconds, rng))
        held += found.lower <= true <= found.upper
        widths.append(found.upper - found.lower)
    return held / 300, float(np.mean(widths))


@pytest.mark.parametrize(("every", "n"), [(16, 100), (25, 130), (25, 300), (100, 500)])
def test_long_steps_at_one_distance_are_known_from_a_few(every: int, n: int) -> None:
    """An evaluation after every n-th step comes as often as that, where stalls at random could have come more often."""
    held, width = covered(every, n, at_random=False)
    held_at_random, width_at_random = covered(every, n, at_random=True)

    assert min(held, held_at_random) >= 0.93
    assert width < 0.4 * width_at_random


@pytest.mark.parametrize("kept", [[20, 45, 70, 96], [20, 45, 70], [45, 70, 95, 120], [0, 25, 50, 75], [0, 3, 6, 9]])
def test_chance_is_not_taken_for_a_distance(kept: list[int]) -> None:
    """Unequal distances, too few of them, and one that is missing at either end, have the interval of rare events."""
    rng = np.random.default_rng(0)
    phase, whole = steps(np.isin(np.arange(150), kept), 1.0, rng)
    found = share(phase, whole)

    assert found.upper - found.lower > 1.2 * found.mean


def test_what_was_not_timed_is_not_missed() -> None:
    """Between two blocks a step is not timed, with its evaluation; positions in samples tell how far apart the others
    are. Where each block holds steps of another size, their numbers do."""
    rng = np.random.default_rng(0)
    phase, whole = steps(np.arange(200) % 25 == 7, 1.0, rng)
    timed = np.ones(200, dtype=bool)
    timed[[20, 57, 90, 132]] = False
    held = share(phase[timed], whole[timed], 16 * np.arange(200)[timed])
    sizes = np.where(np.arange(200) % 30 == 0, 5, 16)
    uneven = share(phase, whole, np.cumsum(sizes) - sizes)

    assert held.upper - held.lower < 0.3 * held.mean
    assert held.lower < 10 / 35 < held.upper
    assert uneven.upper - uneven.lower < 0.3 * uneven.mean


def test_holes_make_no_distance_of_their_own() -> None:
    """Of every forty steps thirty are timed: the long ones come in one of forty, as their positions tell."""
    rng = np.random.default_rng(0)
    every = np.arange(400)
    timed = every % 40 < 30
    phase, whole = steps(every % 40 == 7, 2.0, rng)
    found = share(phase[timed], whole[timed], 8 * every[timed])

    assert found.lower < 2 / 6 < found.upper


def test_neighbours_that_are_alike_widen_the_interval() -> None:
    """A disk that is slow for a while makes several long steps longer; that is less known than as many by chance."""
    held = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        long, drift = np.arange(400) % 8 == 3, np.zeros(50)
        for i in range(1, 50):
            drift[i] = 0.9 * drift[i - 1] + rng.normal(0.0, 0.15 * np.sqrt(1 - 0.9**2))
        phase = np.zeros(400)
        phase[long] = np.exp(drift - 0.15**2 / 2)
        found = share(phase, phase + COMPUTE)
        held += found.lower <= 1 / 1.8 <= found.upper

    assert held >= 70


def test_other_long_steps_do_not_hide_the_distance() -> None:
    """A small hiccup now and then is a rare event of its own beside the regular ones."""
    rng = np.random.default_rng(0)
    phase, whole = steps(np.arange(200) % 25 == 7, 1.0, rng)
    hiccups = np.isin(np.arange(200), [3, 51, 120])
    alone, beside = share(phase, whole), share(phase + 0.1 * hiccups, whole + 0.1 * hiccups)

    assert beside.mean > alone.mean
    assert beside.upper - beside.lower < 0.3 * beside.mean
