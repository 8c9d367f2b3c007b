"""Launches of one run differ, each for its whole life: what one alone shows, and what several show of each other."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from slowstep.judgement.intervals import LAUNCH_SD, ONE_LAUNCH_MARGIN, paired
from slowstep.judgement.stopping import StopRule

RULE = StopRule(max_pairs=30, minimum_effect=0.05)

SEVEN = np.array([0.07, 0.067, 0.073])
"""Three pairs that agree."""


def test_a_small_gain_of_one_launch_asks_for_another() -> None:
    """The comparison goes on, with arms that are launched anew, until a second launch says the same."""
    again = np.concatenate([SEVEN, SEVEN[:2]])
    otherwise = np.concatenate([SEVEN, SEVEN[:2] - 0.09])

    assert not RULE.ends(SEVEN, [0] * 3)
    assert RULE.look_needs_new_launches(SEVEN, [0] * 3)
    assert RULE.ends(again, [0, 0, 0, 1, 1])
    assert not RULE.ends(again, [0] * 5)
    assert not RULE.ends(otherwise, [0, 0, 0, 1, 1])


def test_what_needs_no_second_launch_takes_none() -> None:
    """A gain that no two launches were seen to differ by, one that is refuted, and one where only one is allowed."""
    assert RULE.ends(SEVEN + 2 * ONE_LAUNCH_MARGIN, [0] * 3)
    assert RULE.ends(SEVEN - 0.07, [0] * 3)
    assert replace(RULE, launches=1).ends(SEVEN, [0] * 3)


def test_launches_that_disagree_widen_the_interval() -> None:
    """Their own spread counts where it is more than the known one. Scatter alone makes no launch differ."""
    differ = np.repeat([0.0, 0.1, -0.05, 0.06], 3) + np.tile([0.001, 0.0, -0.001], 4)
    scatters = np.tile([0.1, 0.0, -0.1], 4)
    launches = np.repeat(range(4), 3).tolist()

    assert paired(differ, launches).half > 0.05
    assert paired(scatters, launches).half == pytest.approx(paired(scatters, [0] * 12).half, abs=2 * LAUNCH_SD)


def test_what_scatter_holds_is_not_counted_again() -> None:
    """Where each pair has a launch of its own, pairs scatter by what launches differ by."""
    values = np.random.default_rng(0).normal(0.1, 0.05, 7)

    assert paired(values, range(7)).half < paired(values, [0] * 7).half


def test_one_long_step_makes_no_launch_differ() -> None:
    """A pair with a step thirty times as long lies far out, and its launch is not slow for that."""
    quiet = np.tile([0.1, 0.102, 0.098], 4)
    one = quiet.copy()
    one[4] = 2.0
    launches = np.repeat(range(4), 3).tolist()

    assert paired(one, launches).half == pytest.approx(paired(quiet, launches).half, abs=0.01)


@pytest.mark.parametrize(("launch_sd", "most"), [(0.01, 0.02), (0.03, 0.08), (0.05, 0.15)])
def test_equal_arms_whose_launches_differ_rarely_show_a_gain(launch_sd: float, most: float) -> None:
    """With launches of 3 % it is one comparison in twenty; by one launch alone it was one in seven."""
    rng, shown, runs = np.random.default_rng(0), 0, 300
    for _ in range(runs):
        offsets, scatter = rng.normal(0, launch_sd * math.sqrt(2), 9), rng.normal(0, 0.01, 30)
        launch, launches = 0, list[int]()
        for n in RULE.looks:
            launches += [launch] * (n - len(launches))
            seen = scatter[:n] + offsets[launches]
            if RULE.ends(seen, launches):
                break
            launch += RULE.look_needs_new_launches(seen, launches)
        effect = paired(seen, launches)
        shown += (
            effect.lower > 0 and effect.ratio >= 1.05 and (len({*launches}) > 1 or effect.lower > ONE_LAUNCH_MARGIN)
        )

    assert shown / runs <= most
