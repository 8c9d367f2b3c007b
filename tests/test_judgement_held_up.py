"""Launches of the baseline that others held up tell nothing of it, and all others do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from slowstep.judgement.held_up import not_held_up
from slowstep.judgement.timeline import timeline
from slowstep.records import Steps

RANDOM = np.random.default_rng(7)


def launch(pace: float = 1.0, data: float = 0.5, first: int = 0, steps: int = 60, scatter: float = 0.0) -> Steps:
    """Steps of a launch from a place of the data on, with a share of waiting for data, and scatter of single steps."""
    seconds = 0.002 * pace * RANDOM.lognormal(0.0, scatter, steps)
    return Steps(
        position=[32 * (first + i) for i in range(steps)],
        phases={"data": (data * seconds).tolist(), "forward": ((1 - data) * seconds).tolist()},
    )


def test_shares_are_those_of_the_launches_that_nothing_held_up() -> None:
    """Its threads wait for a core, so that a held-up launch waits for data in a tenth of the time and not in a half."""
    quiet = [launch(scatter=0.2) for _ in range(4)]
    known = not_held_up([launch(10.0, 0.1, scatter=0.2), *quiet, launch(6.0, 0.1, first=20, scatter=0.2)])

    assert known == quiet
    assert timeline(known).share("data").mean == pytest.approx(0.5)


@pytest.mark.parametrize(
    "launches",
    [
        [launch(float(mood), scatter=0.26) for mood in np.linspace(0.9, 1.15, 12)],
        [launch(), launch(first=1000)],
        [launch(first=0), launch(8.0, first=1000)],  # longer samples, which no other launch has seen
        [launch(steps=5), launch(9.0, steps=5)],
        [launch()],
        [],
    ],
    ids=["a machine's moods", "other places", "longer samples", "few steps", "one", "none"],
)
def test_all_launches_stay_where_none_was_held_up(launches: Sequence[Steps]) -> None:
    """Single steps scatter, launches differ, and steps at other places of the data may be longer ones."""
    assert not_held_up(launches) == list(launches)


def test_data_that_was_read_slowly_at_first_is_the_runs_own() -> None:
    """A disk that is read for the first time makes steps five times as long, and nothing that trains takes longer."""
    cold = launch(5.0, data=0.9)
    warm = [launch() for _ in range(4)]

    assert not_held_up([cold, *warm]) == [cold, *warm]


def test_a_launch_with_a_stall_of_its_own_stays() -> None:
    """A stall is what shares are asked for, however long it is; the launch's other steps take as long as ever."""
    stalled = launch()
    stalled.phases["data"][30] += 2.0

    assert stalled in not_held_up([launch(), stalled, launch()])
