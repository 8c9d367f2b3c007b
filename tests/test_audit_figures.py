"""Reported figures: what their digits stand for, and what follows from them."""

from __future__ import annotations

import random

import pytest

from slowstep.audit.figures import Figure, exact, parse
from slowstep.audit.relations import CONSTANTS, RELATIONS, TITLES, solve


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        (2.13, 2.125, 2.135),
        ("2.10", 2.095, 2.105),
        ("34,221", 34220.5, 34221.5),
        ("600K", 599_500, 600_500),
        ("1.8M", 1_750_000, 1_850_000),
        ("20-24", 19.5, 24.5),
        ("20-24K", 19_500, 24_500),
        ("2.1 ± 0.05", 2.0, 2.2),
        ("47%", 46.5, 47.5),
        ("2.11x", 2.105, 2.115),
        ("0", 0, 0),
        ("~200", 180, 220),
        (0.0997, 0.09965, 0.09975),
        (95, 94.5, 95.5),
    ],
)
def test_a_figure_is_all_that_rounds_to_it(text: object, low: float, high: float) -> None:
    """The digits say how exact it is."""
    found = parse(text)

    assert (found.low, found.high) == pytest.approx((low, high))


@pytest.mark.parametrize("text", ["fast", "", "3y", "1,5", None, True, float("nan"), float("inf"), [], "1.2.3", "--5"])
def test_what_is_no_number_is_refused(text: object) -> None:
    """With what was found."""
    with pytest.raises(ValueError, match="found"):
        parse(text)


def test_thirty_two_and_ninety_six_are_the_same_speed() -> None:
    """2.13 s for 32 samples and 6.33 s for 96: 15.0 and 15.2 samples a second."""
    small, large = (
        solve({"seconds_per_step": parse(s), "samples_per_step": exact(n)}).known["samples_per_second"]
        for s, n in ((2.13, 32), (6.33, 96))
    )

    assert (small.middle, large.middle) == pytest.approx((15.02, 15.17), abs=0.01)
    assert (large / small).middle == pytest.approx(1.009, abs=0.002)


def test_a_throughput_that_does_not_follow_is_found() -> None:
    """750 samples in 0.0997 s are 7,523 a second and not 5,641; the relation is named, and by how much it fails."""
    given = {"seconds_per_step": parse(0.0997), "samples_per_second": parse(5641), "samples_per_step": exact(750)}
    (found,) = solve(given).contradictions

    assert str(found.relation) == "samples a step = samples/s × s/step"
    assert max(found.ratio, 1 / found.ratio) == pytest.approx(7523 / 5641, rel=0.001)


def test_examples_are_not_steps() -> None:
    """600K examples three times at 16 a step are 112,500 steps, and not 28 thousand."""
    given = {"samples_per_epoch": parse("600K"), "epochs": exact(3), "samples_per_step": exact(16)}

    assert solve(given).known["steps"].meets(exact(112_500))
    assert solve(given | {"steps": parse("28K")}).contradictions


def test_what_rounding_explains_is_no_contradiction() -> None:
    """Whole runs with true figures, each rounded to two or three digits: never a contradiction."""
    chance = random.Random(0)
    for _ in range(500):
        step, batch, n = chance.uniform(0.01, 9), chance.choice([1, 4, 32, 750]), chance.randrange(100, 90_000)
        steps = -(-n // batch)
        true = {
            "seconds_per_step": step,
            "steps_per_second": 1 / step,
            "samples_per_second": batch / step,
            "seconds_per_epoch": steps * step,
            "steps_per_epoch": steps,
            "hours": 3 * steps * step / 3600,
            "cost": 3 * steps * step / 3600 * 2.5,
        }
        digits = chance.choice([2, 3])
        given = {q: parse(f"{v:.{digits}g}" if v < 10**digits else str(round(v))) for q, v in true.items()}
        given |= {"samples_per_step": exact(batch), "samples_per_epoch": exact(n), "epochs": exact(3)}
        given |= {"price_per_hour": exact(2.5)}

        assert not solve(given).contradictions


@pytest.mark.parametrize(
    ("steps", "slip"),
    [
        ("110,000", True),
        ("112,000", True),
        ("100,000", False),
        ("112,900", True),
        ("116,000", False),
        ("112,500", None),
    ],
)
def test_zeros_at_the_end_of_a_large_number_may_round(steps: str, slip: bool | None) -> None:
    """600,000 samples three times at 16 a step are 112,500 steps: of 110,000 it is told, as a slip; 100,000 are too
    few for two digits."""
    given = {"samples_per_epoch": "600,000", "epochs": "3", "samples_per_step": "16", "steps": steps}
    found = solve({q: parse(v, counted=True) for q, v in given.items()}).contradictions

    assert [c.small for c in found] == ([] if slip is None else [slip])


def test_counts_are_exact_however_round() -> None:
    """10,000 samples at 32 a step are 313 steps, and 320 are a slip at most if the 10,000 were rounded."""
    for steps, slips in (("313", []), ("320", [True]), ("340", [False])):
        given = {"samples_per_epoch": "10000", "samples_per_step": "32", "steps_per_epoch": steps}
        found = solve({q: parse(v, counted=True) for q, v in given.items()}).contradictions

        assert slips == [c.small for c in found]


def test_of_figures_that_contradict_each_other_the_measured_time_counts() -> None:
    """The contradiction is told once, and what people reckon from the time gives way to it."""
    solved = solve({"seconds_per_step": parse("1.0"), "steps_per_second": parse("5.0")})

    assert ["steps_per_second"] == [c.quantity for c in solved.contradictions]
    assert solved.known["steps_per_second"].meets(exact(1.0))


def test_any_figures_are_borne() -> None:
    """Zeros, negatives and giants in any places: never an error."""
    chance = random.Random(1)
    for _ in range(2000):
        names = chance.sample(list(TITLES), chance.randrange(0, 8))
        solve({n: Figure(v, v + chance.random()) for n in names for v in [chance.choice([0, -1, 1e-9, 3, 1e12])]})


def test_division_by_what_may_be_nothing_has_no_end() -> None:
    """And is never an error; what has no end agrees with any figure."""
    third, thing = Figure(1, 2) / Figure(0, 3), Figure(1, 2) / Figure(-1, 3)

    assert (third.low, third.high, third.bounded) == (pytest.approx(1 / 3), float("inf"), False)
    assert thing.meets(exact(-100))
    assert (exact(0) / exact(0)).meets(exact(7))


def test_what_the_epoch_takes_bounds_its_steps() -> None:
    """It may evaluate: 4 minutes for 100 steps are 2.4 s a step at most, and their speed is no less."""
    solved = solve({"minutes_per_epoch": parse("4.0"), "steps_per_epoch": exact(100)})
    step = solved.known["seconds_per_step"]

    assert (step.low, step.high) == (0, pytest.approx(2.43, abs=0.03))
    assert not solve(
        {"seconds_per_step": parse("2.0"), "minutes_per_epoch": parse("4.0"), "steps_per_epoch": exact(100)}
    ).contradictions
    assert solve(
        {"seconds_per_step": parse("3.0"), "minutes_per_epoch": parse("4.0"), "steps_per_epoch": exact(100)}
    ).contradictions


def test_every_quantity_of_a_relation_has_a_title() -> None:
    """A reader is never shown a name of the code."""
    names = {q for r in RELATIONS for q in (r.product, r.a, r.b)} - CONSTANTS.keys()

    assert names <= TITLES.keys()
