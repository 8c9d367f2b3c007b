"""What pairs do not tell, though their interval does: each case with pairs whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simulated import SHARES, around, block, contrast, pairs, record
from slowstep.factors import Contrast
from slowstep.judgement.judge import before_trial, judge
from slowstep.judgement.missed import RunContext
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.records import ComparisonRecord, Pair, Steps
from slowstep.settings import Settings

MINIMUM = 0.05


@pytest.fixture
def batch(quick: Settings) -> Contrast:
    """A contrast that may touch every phase, so that none is a control."""
    return contrast(quick, per_device_train_batch_size=8)


def judged(made: Contrast, measured: ComparisonRecord, noise: ComparisonRecord | None = None) -> Verdict:
    prior = before_trial(made, None, MINIMUM, None)
    return judge(prior, made, measured, MINIMUM, "cpu", RunContext(noise=noise))


@pytest.mark.parametrize(
    ("itself", "gain", "outcome"),
    [
        (0.0, 0.07, Outcome.SUPPORTED),
        (0.08, 0.07, Outcome.INCONCLUSIVE),  # launches of this run differ by as much
        (-0.08, 0.07, Outcome.INCONCLUSIVE),
        (0.08, 0.4, Outcome.SUPPORTED),
        (0.0, 0.0, Outcome.REFUTED),
        (0.08, 0.0, Outcome.INCONCLUSIVE),  # a launch may hide a gain of 5 %
        (0.08, -0.3, Outcome.REFUTED),
    ],
)
def test_no_change_is_credited_with_what_equal_arms_differ_by(
    batch: Contrast, itself: float, gain: float, outcome: Outcome
) -> None:
    """Where the run against itself is told apart, its launches differ by more than an interval allows for."""
    noise = record(pairs(around(itself, noise=0.01, n=5)))
    measured = record(pairs(around(gain, noise=0.01)), observed={"per_device_train_batch_size": 8})
    found = judged(batch, measured, noise)

    assert found.outcome is outcome
    assert (found.outcome is Outcome.INCONCLUSIVE) == ("differs from itself" in found.reason)


def test_launches_that_differ_are_seen_though_they_cancel(batch: Contrast) -> None:
    """One launch of equal arms is 6 % faster and another 6 % slower, each in all its pairs. A gain of 6 % in two
    launches is no gain then, and it is where launches are alike."""
    gained = [replace(p, launch=i // 2) for i, p in enumerate(pairs(around(0.06, noise=0.002, n=4)))]
    measured = record(gained, observed={"per_device_train_batch_size": 8})
    by_launch = [(0, around(0.06, 0.002, 3)), (1, around(-0.06, 0.002, 3))]
    differ = [replace(p, launch=launch) for launch, gains in by_launch for p in pairs(gains)]
    alike = [replace(p, launch=i // 3) for i, p in enumerate(pairs(around(0.0, noise=0.002, n=6)))]

    assert [Outcome.INCONCLUSIVE, Outcome.SUPPORTED] == [
        judged(batch, measured, record(noise)).outcome for noise in (differ, alike)
    ]


@pytest.mark.parametrize(
    ("gain", "launches", "outcome"),
    [
        (0.07, 1, Outcome.INCONCLUSIVE),
        (0.07, 2, Outcome.SUPPORTED),
        (0.4, 1, Outcome.SUPPORTED),  # no two launches were seen to differ by that
        (0.0, 1, Outcome.REFUTED),
    ],
)
def test_a_small_gain_of_one_launch_is_not_yet_one(
    batch: Contrast, gain: float, launches: int, outcome: Outcome
) -> None:
    """Its pairs agree in whatever that launch happened to be: another one has to show it, too."""
    found = [replace(p, launch=i % launches) for i, p in enumerate(pairs(around(gain, noise=0.003, n=4)))]
    verdict = judged(batch, record(found, observed={"per_device_train_batch_size": 8}), None)

    assert verdict.outcome is outcome
    assert (outcome is Outcome.INCONCLUSIVE) == ("all of its pairs are of one launch" in verdict.reason)


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        ({"0": 64.0}, Outcome.SUPPORTED),
        ({"0": 62.0, "1": 0.5}, Outcome.SUPPORTED),  # one argument has all of the batch
        ({"0": 45.0}, Outcome.SUPPORTED),  # neighbours in a graph are shared by more samples
        ({"0": 16.0}, Outcome.INCONCLUSIVE),
        ({"x": 16.0}, Outcome.SUPPORTED),  # it is called otherwise, which shows nothing
        ({}, Outcome.SUPPORTED),
        ("other", Outcome.SUPPORTED),
    ],
)
def test_samples_that_the_model_never_sees_are_no_gain(batch: Contrast, given: object, outcome: Outcome) -> None:
    """A program that cuts larger batches to what it has room for trains on a part of them, though all are loaded."""
    before = {"per_device_train_batch_size": 2, "numbers_of_sample": {"0": 64.0, "1": 2.0}}
    after = {"per_device_train_batch_size": 8, "numbers_of_sample": given}
    measured = record(pairs(around(2.5)), observed=after)
    measured = replace(measured, baseline=replace(measured.baseline, observed=before))
    verdict = judged(batch, measured)

    assert verdict.outcome is outcome
    assert (outcome is Outcome.INCONCLUSIVE) == (
        "8 samples in place of 2, and the model is called with 0.25 times as many numbers for each" in verdict.reason
    )


@pytest.mark.parametrize(
    ("seen", "settled", "outcome"),
    [
        ({"recompilations": 3}, True, Outcome.INCONCLUSIVE),
        ({"recompilations": 0}, True, Outcome.REFUTED),  # it stalls by itself
        ({}, False, Outcome.INCONCLUSIVE),
    ],
)
def test_pairs_that_met_a_compiler_at_work_refute_nothing(
    batch: Contrast, seen: dict, settled: bool, outcome: Outcome
) -> None:
    """A step in five took half a second to compile for a shape that was new, and the others are a third faster."""
    met = [
        Pair(first="baseline", baseline=block([0.1] * 5), treatment=block([0.07] * 4 + [0.5 + i / 100]), launch=i)
        for i in range(7)
    ]
    measured = record(met, observed={"per_device_train_batch_size": 8, **seen})
    found = judged(batch, replace(measured, treatment=replace(measured.treatment, settled=settled)))

    assert found.effect.high < 1
    assert found.outcome is outcome, found.reason


@pytest.mark.parametrize(
    ("positions", "outcome"), [(100, Outcome.REFUTED), (170, Outcome.INCONCLUSIVE), (None, Outcome.REFUTED)]
)
def test_pairs_without_the_long_batches_of_an_epoch_refute_no_change_of_padding(
    quick: Settings, positions: int | None, outcome: Outcome
) -> None:
    """One text in a hundred is thirty times as long: a few blocks meet none, and all padding is in its batches."""
    made = contrast(quick, train_sampling_strategy="group_by_length")
    measured = record(pairs(around(0.0, 0.005)), observed=dict(made.expects))
    seen = {"per_device_train_batch_size": 8, "epoch_steps": 50}
    seen |= {"epoch_padded_tokens": 50 * 8 * positions} if positions else {}
    found = judged(made, replace(measured, baseline=replace(measured.baseline, observed=seen)))

    assert found.outcome is outcome, found.reason
    assert (outcome is Outcome.INCONCLUSIVE) == ("long batches" in found.reason)


def test_a_gain_that_shrinks_as_the_changed_run_trains_on_is_told_to_hold_for_its_beginning(batch: Contrast) -> None:
    """Its forward pass doubles within 120 steps, in each of two launches, and the run's own does not."""
    rng = np.random.default_rng(0)
    even = 0.03 * np.exp(rng.normal(0.0, 0.02, (3, 120)))
    growing = even[0] * np.geomspace(1.0, 2.0, 120)

    def launch(forward: np.ndarray) -> Steps:
        rest = {"backward": list(even[1]), "optimizer": list(even[2])}
        return Steps(position=[8 * i for i in range(120)], phases={"forward": list(forward), **rest})

    plain = record(pairs(around(0.2)), observed={"per_device_train_batch_size": 8})
    notes = [
        judged(batch, replace(plain, treatment=replace(plain.treatment, steps=[launch(forward)] * 2))).warnings
        for forward in (even[0], growing)
    ]

    assert not any("beginning" in note for note in notes[0])
    assert any(note.startswith("forward takes longer the further") and "beginning" in note for note in notes[1])


def test_longer_samples_are_no_gain_of_the_change(quick: Settings) -> None:
    """Batches of similar length come with the longest first: a step takes as long, and its samples are half as long
    again. Over an epoch neither arm is faster. Where all samples are alike, half as many again a second are a gain."""
    made = contrast(quick, train_sampling_strategy="group_by_length")

    def found(tokens: int, seconds: float) -> Verdict:
        met = [
            Pair(first="baseline", baseline=block([0.1] * 5), treatment=block([seconds] * 5, tokens=tokens), launch=i)
            for i in range(7)
        ]
        return judged(made, record(met, observed=dict(made.expects)))

    unlike, alike, both = found(150, 0.1), found(100, 0.1 / 1.5), found(150, 0.1 / 1.5)

    assert [Outcome.INCONCLUSIVE, Outcome.SUPPORTED, Outcome.SUPPORTED] == [v.outcome for v in (unlike, alike, both)]
    assert "unlike lengths (100 and 150 useful tokens each)" in unlike.reason


@pytest.mark.parametrize(("phase", "outcome"), [("data", Outcome.INCONCLUSIVE), ("forward", Outcome.SUPPORTED)])
def test_a_median_does_not_support_what_makes_the_run_stall(batch: Contrast, phase: str, outcome: Outcome) -> None:
    """One block in five waits 3 s under the change, and the median pair is a tenth faster. A long pass, without any
    wait, is as likely the machine's."""
    stalled = {**dict.fromkeys(SHARES, 0.01), phase: 0.95}
    met = [
        Pair(
            first="baseline",
            baseline=block([0.1] * 5),
            treatment=block([0.09] * 4 + [3.0], shares=stalled) if i % 5 == 4 else block([0.09] * 5),
            launch=i,
        )
        for i in range(30)
    ]
    found = judged(batch, record(met, observed={"per_device_train_batch_size": 8}))

    assert found.effect.median
    assert found.effect.low > 1
    assert found.outcome is outcome, found.reason


@pytest.mark.parametrize(
    ("weights", "outcome"),
    [
        ((100, 100, 100), Outcome.SUPPORTED),
        ((100, 700, 100), Outcome.INCONCLUSIVE),
        ((100, 100, 700), Outcome.INCONCLUSIVE),
    ],
)
def test_a_model_that_is_drawn_by_chance_is_no_gain(
    batch: Contrast, weights: tuple[int, int, int], outcome: Outcome
) -> None:
    """A random search builds another model in each launch; `weights` are those of three launches of the run as it is.

    Its changed run has others in any case, as a change may well give it some.
    """
    first, second, third = ({"model_weights": one} for one in weights)
    noise = record(pairs(around(0.0, noise=0.01, n=5)), observed=second)
    noise = replace(noise, arms=["run", "run"], baseline=replace(noise.baseline, observed=first))
    measured = record(pairs(around(2.5)), observed={"per_device_train_batch_size": 8, "model_weights": 800})
    measured = replace(measured, arms=["run", "changed"], baseline=replace(measured.baseline, observed=third))
    verdict = judged(batch, measured, noise)

    assert verdict.outcome is outcome
    assert (outcome is Outcome.INCONCLUSIVE) == ("with 100 weights or with 700" in verdict.reason)


def test_another_baseline_may_have_other_weights(batch: Contrast) -> None:
    """As where a setting is held constant in both arms that adds some."""
    noise = replace(record(pairs(around(0.0, noise=0.01, n=5)), observed={"model_weights": 100}), arms=["run", "run"])
    measured = record(pairs(around(2.5)), observed={"per_device_train_batch_size": 8})
    other = replace(measured.baseline, observed={"model_weights": 700})

    assert (
        judged(batch, replace(measured, arms=["other", "changed"], baseline=other), noise).outcome is Outcome.SUPPORTED
    )
