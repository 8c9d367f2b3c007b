"""A comparison that the end of few minutes left undecided goes on in more of them as if it had never stopped."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from simulated import around, pairs, record
from slowstep.factors import Arm
from slowstep.judgement.stopping import StopRule
from slowstep.measure.going_on import joined, pairs_before
from slowstep.measure.interleaved import InterleavedComparison
from slowstep.measure.measurer import ComparisonRequest
from slowstep.records import ComparisonRecord, Status
from slowstep.settings import Settings, override
from slowstep.settings.epochs import FAILED


def comparison(quick: Settings, earlier: ComparisonRecord | None = None, epochs_end: str = "") -> InterleavedComparison:
    """A comparison under way, whose epochs end if a trial failed beyond the end of one."""
    pool = SimpleNamespace(budget=quick.budget, own_epochs=SimpleNamespace(why=epochs_end))
    arms = (
        Arm(label="baseline", settings=quick),
        Arm(label="once", settings=override(quick, {"dataset.tokenize": "once"})),
    )
    stop = StopRule(max_pairs=12, minimum_effect=0.05)
    return InterleavedComparison(
        pool, ComparisonRequest(baseline=arms[0], treatment=arms[1], stop=stop, earlier=earlier)
    )


def test_the_order_of_the_arms_is_drawn_on(quick: Settings) -> None:
    """The fifth pair has the order that it would have had without a break."""
    whole = comparison(quick)
    drawn = [next(whole.order) for _ in range(30)]
    on = comparison(quick, record(pairs(around(0.1, n=4)), redone=["baseline, pair 2: other processes"]))

    assert [next(on.order) for _ in range(26)] == drawn[4:]
    assert len(on.redone) == 1
    assert not on.has_begun


def test_later_pairs_have_launches_of_their_own(quick: Settings) -> None:
    """They are no less than the budget allows, and no launch of the first run is taken for one of them."""
    on = comparison(quick, record(pairs(around(0.1, n=4))))

    assert on.launch == 0
    assert [pair.launch for pair in on.pairs] == [-4, -3, -2, -1]
    assert not on.needs_new_launches


@pytest.mark.parametrize(
    ("before", "now", "goes_on"),
    [("", "", True), ("an error", "an error", True), ("", "an error", False), ("an error", "", False)],
)
def test_no_pairs_of_other_epochs_are_taken(before: str, now: str, goes_on: bool, quick: Settings) -> None:
    """Steps of epochs that end are others than those of epochs without end."""
    earlier = record(pairs(around(0.1, n=4)))
    earlier = replace(earlier, baseline=replace(earlier.baseline, observed={FAILED: before} if before else {}))

    assert bool(comparison(quick, earlier, now).pairs) is goes_on


def test_what_both_runs_timed_is_kept() -> None:
    """The steps are evidence, the start-up is that of the first launch, and the seconds are those of both."""
    earlier = replace(record(pairs(around(0.1, n=3))), seconds=10.0)
    start = replace(earlier.baseline, startup={"imports": 5.0}, wall={"waiting": 1.0})
    earlier = replace(earlier, baseline=start)
    later = replace(record([*pairs_before(earlier), *pairs(around(0.1, n=2))]), seconds=4.0, cut_within=None)
    found = joined(earlier, later)

    assert len(found.pairs) == 5
    assert found.seconds == 14.0
    assert found.baseline.startup == {"imports": 5.0}
    assert found.baseline.wall == {"waiting": 1.0}
    assert found.baseline.steps == [*earlier.baseline.steps, *later.baseline.steps]


def test_an_arm_that_was_not_launched_again_is_told_as_it_was() -> None:
    """The minutes may be over before it is: the pairs that there are still count."""
    earlier = record(pairs(around(0.1, n=3)))
    late = replace(earlier.treatment, status=Status.NOT_TESTABLE, reason="was not started", losses=[], steps=[])

    assert joined(earlier, replace(earlier, treatment=late)).treatment == earlier.treatment
