"""Whether two arms trained the same, from their first losses."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from slowstep.judgement import losses
from slowstep.records import ComparisonRecord, Memory, Status, TrialRecord


def compared(a: list[float], b: list[float], batch: int = 4, **observed: object) -> ComparisonRecord:
    """Two trials with these losses, the second with batches of `batch`."""
    own = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 1, "padding": "longest"}
    other = own | {"per_device_train_batch_size": batch} | observed
    return ComparisonRecord(
        baseline=TrialRecord(arm="baseline", status=Status.OK, observed=own, losses=a),
        treatment=TrialRecord(arm="treatment", status=Status.OK, observed=other, losses=b),
        pairs=[],
    )


def test_the_same_training_has_the_same_losses() -> None:
    """Up to the order of summation; one step that differs by more is another training."""
    assert losses.same(compared([6.0, 5.0, 4.0], [6.001, 5.001]))
    assert not losses.same(compared([6.0, 5.0, 4.0], [6.0, 5.2, 4.0]))


def test_a_run_that_does_not_learn_is_another_training() -> None:
    """Its first losses are the same, since little is learned in them."""
    learns = [6.0 - 0.02 * i for i in range(64)]

    assert losses.same(compared(learns, [loss * 1.002 for loss in learns]))
    assert not losses.same(compared(learns, [6.0 - 0.001 * i for i in range(64)]))


def at_rates(measured: ComparisonRecord, a: list[float], b: list[float]) -> ComparisonRecord:
    """The same comparison with these learning rates, relative to those that were set."""
    baseline, treatment = (
        replace(arm, learning_rates=r) for arm, r in zip((measured.baseline, measured.treatment), (a, b), strict=True)
    )
    return replace(measured, baseline=baseline, treatment=treatment)


def test_runs_that_hardly_learn_do_not_show_that_they_train_the_same() -> None:
    """Early in a long warm-up a run without any updates has the same losses. Other ones still show other training."""
    flat, other = compared([6.0, 5.0] * 8, [6.001, 5.001] * 8), compared([6.0, 5.0] * 8, [6.0, 5.2] * 8)
    early, late = [step / 3e7 for step in range(16)], [min(1.0, step / 8) for step in range(16)]
    stuck = at_rates(flat, early, early)

    assert losses.same(stuck) is losses.same(stuck, reorders_draws=True) is losses.change(stuck) is None
    assert losses.learning_rate_reached(stuck) == 15 / 3e7
    assert losses.same(at_rates(other, early, early)) is False
    for known in (flat, at_rates(flat, late, late), at_rates(flat, late, early), at_rates(flat, early, late)):
        assert losses.same(known)
        assert losses.change(known) is not None
        assert losses.learning_rate_reached(known) is None


def test_the_change_is_over_the_same_samples() -> None:
    """Two steps of 8 stand against four of 4; what one arm alone has seen does not count."""
    found = losses.change(compared([6.0, 6.0, 4.0, 4.0, 1.0], [6.0, 4.5, 0.1], batch=8))

    assert found == pytest.approx((6.0 + 4.5) / 2 / 5.0 - 1)


def test_samples_of_all_processes_count() -> None:
    """A step of two processes trains on twice the samples of a step of one."""
    found = losses.change(compared([6.0, 6.0, 4.0, 4.0], [6.0, 4.5, 0.1], world_size=2))

    assert found == pytest.approx((6.0 + 4.5) / 2 / 5.0 - 1)


@pytest.mark.parametrize("fact", [{"padding": "packing"}, {"max_length": 64}])
def test_other_samples_are_not_compared(fact: dict[str, object]) -> None:
    """Packed or cut examples are not the samples that the baseline saw."""
    assert losses.change(compared([6.0], [6.0], **fact)) is None


def test_weights_that_were_written_on_a_device_leave_nothing_to_compare() -> None:
    """There the other arm reads what was written; on a host the writer has copies of its own."""
    written = compared([6.0, 5.0], [6.0, 5.0], frozen_bytes_written=8)
    of_device = replace(written, treatment=replace(written.treatment, memory=Memory(reserved=1 << 30)))
    on_device = compared([6.0, 5.0], [6.0, 5.0], frozen_bytes_written=8, frozen_bytes_written_on_device=8)

    assert losses.same(written)
    assert losses.same(of_device)  # trained on a device over weights of the host
    assert losses.same(on_device) is losses.same(on_device, reorders_draws=True) is losses.change(on_device) is None


def test_without_a_common_end_there_is_nothing_to_compare() -> None:
    """One step of 4 and one of 6 end together nowhere."""
    assert losses.change(compared([6.0], [6.0], batch=6)) is None
    assert losses.change(compared([], [])) is None


def test_random_draws_make_losses_differ_by_chance() -> None:
    """Other noise in each step is no other training; losses that stay high are, whatever is random."""
    draw = random.Random(0)
    noise = [[draw.gauss(0, 0.3) for _ in range(32)] for _ in range(2)]
    a, b = ([3 - 0.03 * i + one[i] for i in range(32)] for one in noise)
    stuck = [3 + one for one in noise[1]]

    spoiled = [2.0] * 57 + [20.0] * 3
    assert not losses.same(compared([2.0] * 60, spoiled))  # nothing is random, so nothing is chance
    assert not losses.same(compared([2.0] * 60, spoiled, draws=True))  # and chance does not explain everything
    assert not losses.same(compared(a, b))
    assert losses.same(compared(a, b, draws=True))
    assert losses.same(compared(a, b), reorders_draws=True)
    assert not losses.same(compared(a, stuck, draws=True))


@pytest.mark.parametrize("draws", [False, True])
def test_losses_that_are_rounding_say_nothing(draws: bool) -> None:
    """The loss of GRPO's first passes is what rounding leaves of advantages that cancel: 1e-8, of either sign."""
    draw = random.Random(0)
    a, b = ([draw.gauss(0, 1e-7) for _ in range(30)] for _ in range(2))
    grpo = compared(a, b, draws=draws)

    assert losses.same(grpo) is None
    assert losses.change(grpo) is None
    assert losses.same(compared(a, [loss + 0.1 for loss in b], draws=draws)) is False  # the other arm has real losses


def test_a_loss_near_zero_counts_as_part_of_its_run() -> None:
    """Rounding of 1e-4 is nothing in a run of losses around 0.2, although one of them is 0.003 and one is negative."""
    a = [0.5, 0.1, 0.003, -0.02, 0.2, 0.1, 0.3, 0.2] + [0.1] * 22

    assert losses.same(compared(a, [loss + 1e-4 for loss in a]))
    assert not losses.same(compared(a, [*a[:2], 0.02, *a[3:]]))


@pytest.mark.parametrize("draws", [False, True])
def test_losses_that_cross_zero_have_no_relative_change(draws: bool) -> None:
    """A critic's losses cancel: what is left of them is no measure. Other data order and a stuck run are told all the
    same."""
    draw = random.Random(1)
    a = [draw.gauss(0, 1) for _ in range(60)]
    rounded = [loss + draw.gauss(0, 1e-3) for loss in a]
    falls = [2 - 4 * i / 59 for i in range(60)]

    assert losses.same(compared(a, rounded)) is True
    assert losses.same(compared(a, a[::-1])) is False
    assert losses.same(compared(a, a[::-1], draws=True)) is None
    assert losses.change(compared(a, rounded)) is losses.change(compared(a, a[::-1])) is None
    assert losses.same(compared(falls, [2 - i / 59 for i in range(60)], draws=draws)) is False


def test_a_rounding_of_bfloat16_is_no_other_training() -> None:
    """Its neighbouring numbers lie 0.8 % apart, so two of them are more than the 1 % that finer losses are held to."""
    ulp = 2.0**-7
    a = [1 + ulp * (8 - i) for i in range(8)]

    assert losses.same(compared(a, [loss + 2 * ulp for loss in a]))
    assert not losses.same(compared(a, [loss + 4 * ulp for loss in a]))
    assert not losses.same(compared([*a, 1.001], [loss + 2 * ulp for loss in [*a, 1.001]]))  # of float32
