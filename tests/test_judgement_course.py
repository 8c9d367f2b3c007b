"""What becomes of a run's steps as training goes on: told where it is so, and never by a machine's noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from slowstep.judgement.course import Course, courses, placed
from slowstep.judgement.notes import outgrown, passing
from slowstep.records import Place, ProfileRecord, Steps
from slowstep.wording.course import course

STEP = {"data": 0.005, "forward": 0.03, "backward": 0.06, "optimizer": 0.005}


def launch(n: int, random: np.random.Generator, shape: Callable[[np.ndarray], dict[str, np.ndarray]]) -> Steps:
    """Return the steps of a launch on a machine that drifts, slowly and for all phases alike, and stalls now and then.

    `shape` gives the factor by which each phase is longer at each step.
    """
    drift = 1 + 0.15 * np.cumsum(random.normal(size=n)) / np.sqrt(n) + 0.1 * random.normal()
    stalls = np.where(random.random(n) < 0.005, 20.0, 1.0)
    factors, columns = shape(np.arange(n)), {}
    for phase, seconds in STEP.items():
        noise = random.lognormal(0, 0.1, n)
        columns[phase] = (seconds * factors.get(phase, 1.0) * noise * np.abs(drift) * stalls).tolist()
    return Steps(position=[8 * (10 + i) for i in range(n)], phases=columns)


def run(seed: int, shape: Callable[[np.ndarray], dict[str, np.ndarray]], lengths: tuple[int, ...]) -> list[Steps]:
    random = np.random.default_rng(seed)
    return [launch(n, random, shape) for n in lengths]


def steady(i: np.ndarray) -> dict[str, np.ndarray]:
    return {}


LENGTHS = [(600, 30, 30, 25), (60, 50, 40), (45,)]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_a_run_of_one_pace_has_no_course(lengths: tuple[int, ...]) -> None:
    told = sum(bool(courses(run(seed, steady, lengths), 0.05)) for seed in range(200))
    assert told <= 6  # 3 %; the p of ten phases is 5 %, and the size is asked for besides


@pytest.mark.parametrize("lengths", LENGTHS[:2])
def test_what_grows_is_told_with_its_phase_and_its_size(lengths: tuple[int, ...]) -> None:
    most = max(lengths)

    def grows(i: np.ndarray) -> dict[str, np.ndarray]:
        return {"forward": 1 + 3 * i / most}

    found = [courses(run(seed, grows, lengths), 0.05) for seed in range(50)]
    assert sum(bool(one) and one[0].phase == "forward" and one[0].grows for one in found) >= 49
    first = [one[0] for one in found if one]
    # forward: 1.5 times its 30 ms in the first third, 3.5 times in the last; a step of 115 ms grows by 60 ms
    assert np.median([one.change for one in first]) == pytest.approx(1.52, abs=0.1)
    assert np.median([one.adds_a_step_in for one in first]) == pytest.approx(most * 115 / 90, rel=0.2)
    assert {one.steps for one in first} == {most}


def burst(i: np.ndarray) -> dict[str, np.ndarray]:
    """Something else on the machine makes one phase longer for a while, which runs on all cores."""
    return {"backward": np.where(i < 60, 3.0, 1.0)}


def test_what_one_time_alone_shows_is_told_as_no_more_than_that() -> None:
    """Two arms that train beside each other meet the same load of the machine; a second launch does not."""
    found = [courses(run(seed, burst, (250, 250)), 0.05, epoch=8 * 70, times=(0, 0)) for seed in range(20)]
    again = [courses(run(seed, burst, (250,) * 4), 0.05, epoch=8 * 70, times=(0, 0, 1, 1)) for seed in range(20)]

    assert {one.once for each in found for one in each} == {True}
    assert {one.once for each in again for one in each} == {False}
    assert "seen at one time alone" in course(found[0])
    assert "seen at one time alone" not in course(again[0])


@pytest.mark.parametrize(
    ("lengths", "shape"),
    [
        ((600, 600, 600), lambda i: {"forward": np.where(i < 300, 1.0, 3.0)}),
        ((250, 250, 250, 250), lambda i: {"forward": np.where(i < 125, 1.0, 3.0)}),
        ((40, 40, 40), lambda i: {"forward": 1 + i / 20}),
    ],
)
def test_what_each_of_several_launches_shows_is_known(
    lengths: tuple[int, ...], shape: Callable[[np.ndarray], dict[str, np.ndarray]]
) -> None:
    """Also where it comes all at once amid a launch, or where half a launch is too short to show it."""
    every = [courses(run(seed, shape, lengths), 0.05) for seed in range(20)]
    found = [each[0] for each in every if each]

    assert len(found) >= 12
    assert sum(one.once for one in found) <= len(found) / 6


def test_what_grows_through_the_whole_of_a_launch_is_seen_in_both_its_halves() -> None:
    """No load of the machine that comes and goes does that."""
    found = [courses(run(seed, lambda i: {"forward": 1 + i / 100}, (600,)), 0.05) for seed in range(20)]
    began = [courses(run(seed, lambda i: {"forward": np.where(i < 300, 1.0, 3.0)}, (600,)), 0.05) for seed in range(20)]

    assert sum(one.once for each in found for one in each) <= 1
    assert {one.once for each in began for one in each} == {True}


def test_what_fills_is_told_as_passing() -> None:
    found = courses(run(1, lambda i: {"data": 1 + 30 * np.exp(-i / 100)}, (600, 40, 30)), 0.05)
    assert [one.phase for one in found] == ["data"]
    assert not found[0].grows
    assert found[0].adds_a_step_in is None
    assert "Data wait changes as training goes on" in course(found)


@pytest.mark.parametrize("epoch", [30, 150, 400])
def test_what_is_over_with_the_first_epoch_is_told_so(epoch: int) -> None:
    """A cache is full when each example was loaded once, which no trend over later steps shows."""

    def cached(i: np.ndarray) -> dict[str, np.ndarray]:
        return {"data": np.where(i + 10 < epoch, 20.0, 0.2)}

    found = [courses(run(seed, cached, (600, 250)), 0.05, epoch=8 * epoch) for seed in range(10)]
    assert all([(one.phase, one.grows, one.epoch) for one in told] == [("data", False, epoch)] for told in found)
    assert np.median([told[0].first / told[0].last for told in found]) == pytest.approx(100, rel=0.1)
    assert f"a step in the {epoch:,} steps of that epoch and" in course(found[0])
    assert f"as the first epoch of {epoch:,} steps ends" in passing(found[0][0])


def test_what_comes_with_the_second_epoch_has_no_pace_at_which_it_goes_on() -> None:
    found = courses(run(0, lambda i: {"forward": np.where(i < 290, 1.0, 4.0)}, (600, 600)), 0.05, epoch=2400)
    assert [(one.phase, one.grows, one.epoch, one.adds_a_step_in) for one in found] == [("forward", True, 300, None)]
    assert "figures of the first epoch don't hold for later ones" in course(found)


def test_a_trend_over_epochs_stays_a_trend() -> None:
    found = [courses(run(seed, lambda i: {"forward": 1 + i / 200}, (600, 50)), 0.05, epoch=2400) for seed in range(20)]
    assert sum([(one.phase, one.epoch) for one in told] == [("forward", 0)] for told in found) >= 19
    assert "what the program empties after each epoch of 300 steps grows on" in course(found[0])
    alone = courses(run(0, lambda i: {"forward": 1 + i / 200}, (600, 50)), 0.05, epoch=80_000)
    assert "empties" not in course(alone)


@pytest.mark.parametrize("epoch", [1.0, 100.0, 2400.0, 1e9])
def test_an_epoch_makes_no_course_of_a_run_of_one_pace(epoch: float) -> None:
    assert sum(bool(courses(run(seed, steady, (600, 60)), 0.05, epoch)) for seed in range(100)) <= 5


def test_a_change_too_small_to_matter_is_not_told() -> None:
    assert not courses(run(2, lambda i: {"optimizer": 1 + 0.3 * i / 600}, (600,)), 0.05)


def test_two_phases_that_grow_are_both_told_with_their_sizes() -> None:
    found = courses(run(4, lambda i: {"forward": 1 + i / 60, "data": 1 + i / 30}, (600, 50)), 0.05)
    assert [one.phase for one in found] == ["forward", "data"]  # the larger one first
    # forward is 2.7 times its 30 ms in the first third and 9.3 times in the last, the data wait 4.3 and 17.7 times 5 ms
    assert found[0].last - found[0].first == pytest.approx(0.2, rel=0.25)
    assert found[1].last - found[1].first == pytest.approx(0.067, rel=0.25)


def test_passes_that_grow_alike_are_both_told() -> None:
    """A model that becomes larger while it trains lengthens both of its passes in the same proportion."""

    def larger(i: np.ndarray) -> dict[str, np.ndarray]:
        return dict.fromkeys(["forward", "backward"], 1 + 3 * i / 600)

    found = [courses(run(seed, larger, (600, 50)), 0.05) for seed in range(20)]
    assert all([one.phase for one in told] == ["backward", "forward"] for told in found)
    # backward: 1.5 times its 60 ms in the first third, 3.5 times in the last; forward half of it
    assert np.median([told[0].last - told[0].first for told in found]) == pytest.approx(0.12, rel=0.25)
    assert np.median([told[1].last - told[1].first for told in found]) == pytest.approx(0.06, rel=0.25)


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_one_pass_that_grows_is_told_alone(phase: str) -> None:
    found = [courses(run(seed, lambda i: {phase: 1 + 3 * i / 600}, (600, 50)), 0.05) for seed in range(20)]
    assert sum([one.phase for one in told] == [phase] for told in found) >= 19


def test_what_all_phases_do_alike_is_the_machines() -> None:
    def slower(i: np.ndarray) -> dict[str, np.ndarray]:
        return dict.fromkeys(STEP, 1 + i / 300)

    assert not any(courses(run(seed, slower, (600, 50)), 0.05) for seed in range(20))


def test_a_phase_that_is_most_of_a_step_does_not_grow_if_the_little_beside_it_falls() -> None:
    """Backward is 95 ms of 100; what falls is 4.5 ms of data wait, which is too little to tell."""
    random = np.random.default_rng(0)
    rows = {"backward": 0.095 * random.lognormal(0, 0.01, 600), "data": 0.0045 - 0.000004 * np.arange(600)}
    steps = Steps(position=list(range(600)), phases={name: row.tolist() for name, row in rows.items()})
    assert not courses([steps], 0.05)


def test_a_stall_at_the_end_makes_no_growth_of_a_small_trend() -> None:
    (steps,) = run(5, lambda i: {"forward": 1 + 0.00005 * i}, (600,))
    forward = [*steps.phases["forward"]]
    forward[550] = 10.0
    assert not courses([replace(steps, phases=steps.phases | {"forward": forward})], 0.05)


@pytest.mark.parametrize("steps", [Steps(), Steps(position=[8], phases={"forward": [0.1]})])
def test_too_few_steps_tell_nothing(steps: Steps) -> None:
    assert courses([steps], 0.05) == []


def test_steps_of_one_phase_alone_tell_nothing() -> None:
    assert (
        courses([Steps(position=list(range(100)), phases={"other": [0.1 + 0.01 * i for i in range(100)]})], 0.05) == []
    )


def profile(start: int = 100, own: bool = True, **shares: float) -> ProfileRecord:
    places = [Place(phase="forward", where=f"train.py:{n[1:]} in f", own=own, share=s) for n, s in shares.items()]
    return ProfileRecord(
        device="cpu", steps=5, seconds=1.0, operators=[], idle=0.0, gaps_per_step=0.0, gap_seconds=0.0, trace="",
        places=places, start=start,
    )  # fmt: skip


GROWN = Course(phase="forward", first=0.03, last=0.08, step=0.1, steps=600)


def test_the_line_is_named_in_which_the_growth_must_lie() -> None:
    found = placed(GROWN, profile(_7=0.1, _9=0.42))  # 63 ms of 150, where the whole phase took 30 at first
    assert found.where == "train.py:9 in f"
    assert "at train.py:9 in f" in course([found])


@pytest.mark.parametrize(
    ("one", "late"),
    [
        (GROWN, profile(_7=0.19)),  # 29 ms: it may be what the phase took before
        (GROWN, profile()),
        (GROWN, profile(start=0, _7=0.5)),  # these were the first steps
        (GROWN, profile(own=False, _7=0.5)),
        (replace(GROWN, first=0.08, last=0.03), profile(_7=0.5)),
    ],
)
def test_no_line_is_named_in_which_it_need_not_lie(one: Course, late: ProfileRecord) -> None:
    assert placed(one, late) == one


def test_no_line_is_named_at_which_ranks_wait_for_each_other() -> None:
    there = [replace(place, phase="backward") for place in profile(_7=0.5).places]
    waits, late = replace(GROWN, phase="backward"), replace(profile(), places=there)
    assert placed(waits, late, together=True) == waits
    assert placed(waits, late).where == "train.py:7 in f"


def test_a_gain_that_other_phases_outgrow_is_told_as_that_of_the_beginning() -> None:
    """A curriculum trains on ever longer sequences, beside which an optimizer is soon nothing."""
    grown = courses(run(1, lambda i: {"forward": 1 + i / 100, "backward": 2 + i / 50}, (600, 40, 30)), 0.05)

    assert {"forward", "backward"} == {one.phase for one in grown}
    assert "longer by what grows in " in outgrown(grown)
    assert "its gain holds for the beginning of the training and is smaller later" in outgrown(grown)
