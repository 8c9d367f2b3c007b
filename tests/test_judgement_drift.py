"""How far the pace of a run at another moment may lie from the one that a job is projected with."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slowstep.judgement.drift import UNKNOWN, Drift, drift
from slowstep.judgement.intervals import LAUNCH_SD
from slowstep.records import Steps

PLACES = list(range(0, 80, 4))


def launch(seconds: float, waits: float = 0.0, places: list[int] = PLACES) -> Steps:
    """A launch that trains for so many seconds on each step and waits for data as well."""
    phases = {"data": [waits] * len(places), "forward": [seconds / 3] * len(places)}
    return Steps(position=places, phases=phases | {"backward": [seconds * 2 / 3] * len(places)})


def test_each_other_moment_counts_once() -> None:
    """Two launches of one record ran at one moment; those of the comparison with itself are the reference."""
    found = drift([launch(1.0), launch(1.2)], [[launch(1.21), launch(1.21)], [launch(1.1)]])

    assert list(found.offsets) == pytest.approx([math.log(1.1), 0.0])


def test_stalls_and_waits_are_no_drift() -> None:
    """They are counted as what they are, and a moment that met one is no slower machine."""
    stalled = launch(1.0)
    stalled.phases["forward"][3] = 30.0

    assert list(drift([launch(1.0)], [[stalled], [launch(1.0, waits=5.0)]]).offsets) == pytest.approx([0.0, 0.0])


def test_only_steps_at_the_same_places_of_the_data_are_compared() -> None:
    """A batch may take longer than another. Of few shared places nothing is told."""
    other, few = launch(2.0, places=[p + 1000 for p in PLACES]), launch(2.0, places=PLACES[:3])

    assert not drift([launch(1.0)], [[other], [few], []]).offsets


def test_the_wait_of_a_run_that_trains_nothing_yet_tells_nothing() -> None:
    """A step without a phase in which it trains has no pace."""
    assert not drift([launch(0.0, waits=1.0)], [[launch(0.0, waits=1.0)]]).offsets


def test_more_quiet_moments_narrow_it_and_a_wild_one_widens_it() -> None:
    """Before any is known, two launches on a machine that does nothing else are expected."""
    assert 2 * LAUNCH_SD < UNKNOWN.half < 7 * LAUNCH_SD
    assert Drift([0.0] * 10).half < UNKNOWN.half < Drift([0.0] * 10 + [0.2]).half


@pytest.mark.parametrize("sd", [0.005, 0.02, 0.05, 0.1])
def test_the_next_moment_lies_within_it(sd: float) -> None:
    """From five moments on it holds nearly 95 of 100, however much the machine drifts; a steady one more."""
    draws = np.random.default_rng(0).normal(0, sd * math.sqrt(2), (2000, 6))
    within = np.mean([abs(next_one) <= Drift(seen).half for *seen, next_one in draws])

    assert within >= 0.9
