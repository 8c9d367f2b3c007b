"""Verdicts: the decision table, and Holm's correction, on records with known truth."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from simulated import CPU, SHARES, around, block, comparisons, contrast, facts, pairs, record, step_times
from slowstep.factors import CATALOGUE, Contrast, Meaning
from slowstep.judgement.comparison import LOOKS, Reading, change
from slowstep.judgement.intervals import NOMINAL_P, Interval
from slowstep.judgement.judge import before_trial, judge
from slowstep.judgement.missed import RunContext
from slowstep.judgement.stopping import StopRule
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.judgement.verdicts_together import holm, reconsidered
from slowstep.records import Block, ComparisonRecord, Pair, Status, TrialRecord
from slowstep.settings import Settings, override
from slowstep.text.numbers import percent, told_apart

MINIMUM = 0.05


@pytest.fixture
def tokenize(quick: Settings) -> Contrast:
    """A contrast that touches data loading alone, on a GPU."""
    return contrast(quick, tokenize="once")


@pytest.fixture
def batch(quick: Settings) -> Contrast:
    """A contrast that may touch every phase, so that none is a control."""
    return contrast(quick, per_device_train_batch_size=8)


def judged(made: Contrast, measured: ComparisonRecord, device: str = "cuda") -> Verdict:
    prior = before_trial(made, None, MINIMUM, None)
    return judge(prior, made, measured, MINIMUM, device)


def took(gains: list[float], **about: object) -> ComparisonRecord:
    """A record of pairs with those gains, whose treatment did what was asked."""
    return record(pairs(gains), observed={"tokenize": "once"}, **about)


def test_an_end_that_looks_like_its_limit_is_shown_apart_from_it(tokenize: Contrast) -> None:
    """A reader who sees +5.0 beside +5.0 % would take "below" for a mistake."""
    falling = (judged(tokenize, took(around(0.05 - k * 2e-4, 1e-5))) for k in range(100))
    below = next(v for v in falling if v.outcome is Outcome.REFUTED)
    clear = judged(tokenize, took(around(0.0, 0.001)))

    assert below.outcome is clear.outcome is Outcome.REFUTED
    assert below.reason.startswith("the whole interval lies below the minimum effect of +5 % (up to +4.9")
    assert "(up to" not in clear.reason
    assert ("+4.97 %", "-0.01 %", "", "") == (
        told_apart(1.0497, 1.05),
        told_apart(0.9999, 1.0),
        told_apart(1.05, 1.05),
        told_apart(1.04, 1.05),
    )


@pytest.mark.parametrize(("workers", "outcome"), [(0, Outcome.INCONCLUSIVE), (2, Outcome.REFUTED)])
def test_a_bound_is_of_the_run_that_both_arms_are(workers: int, outcome: Outcome, quick: Settings) -> None:
    """A run without workers says nothing of how long one with workers waits, which both arms are given then."""
    run = override(quick, {"training_arguments.dataloader_num_workers": workers})
    seen = facts(shares={**SHARES, "data": 0.01}, observed={"dataloader_num_workers": workers})
    prior = before_trial(contrast(run, CPU, dataloader_prefetch_factor=4), seen, MINIMUM, None)

    assert prior.conditional == (not workers)
    assert (outcome, bool(workers)) == (prior.outcome, prior.bound is not None)


@pytest.mark.parametrize(
    ("gain", "noise", "outcome"),
    [
        (0.20, 0.01, Outcome.SUPPORTED),
        (0.20, 0.30, Outcome.INCONCLUSIVE),
        (0.049, 0.02, Outcome.INCONCLUSIVE),
        (0.03, 0.002, Outcome.REFUTED),
        (0.00, 0.01, Outcome.REFUTED),
        (0.00, 0.20, Outcome.INCONCLUSIVE),
        (-0.20, 0.01, Outcome.REFUTED),
    ],
)
def test_the_interval_and_the_minimum_effect_decide(
    batch: Contrast, gain: float, noise: float, outcome: Outcome
) -> None:
    """Supported needs an interval without "no gain" and the minimum effect; refuted needs all of it below that."""
    measured = record(pairs(around(gain, noise, n=12)), observed={"per_device_train_batch_size": 8})

    assert outcome == judged(batch, measured).outcome


def test_inconclusive_says_what_could_have_been_seen(tokenize: Contrast) -> None:
    """An inconclusive verdict names the smallest effect that this noise would have let through."""
    found = judged(tokenize, took(around(0.0, noise=0.2, n=12)))

    assert f"an effect below {percent(np.exp(found.effect.half))} could not have been seen" in found.reason


def test_a_gain_that_may_be_too_small_is_told_as_a_gain(tokenize: Contrast) -> None:
    """Where the whole interval lies above zero, only its size is open."""
    found = judged(tokenize, took(around(0.045, noise=0.02, n=12)))

    assert found.effect.low > 1
    assert Outcome.INCONCLUSIVE == found.outcome
    assert found.reason == (
        "the whole interval lies above zero, and after 12 pairs it is not known whether the gain reaches the minimum "
        "effect of +5 %"
    )


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (0.055, "and the estimate reaches the minimum effect of +5 %"),
        (0.2, "the whole interval lies above the minimum effect of +5 %"),
        (0.03, "; there is a gain, and it is smaller"),
    ],
)
def test_an_estimate_is_not_told_as_what_is_sure(batch: Contrast, gain: float, words: str) -> None:
    """Of +6 % [4, 8] nobody knows that it reaches 5 %, and +3 % [1, 4] is refuted and no proof of no effect."""
    measured = record(pairs(around(gain, noise=0.004, n=12)), observed={"per_device_train_batch_size": 8})

    assert words in judged(batch, measured).reason


def test_two_pairs_support_nothing(tokenize: Contrast) -> None:
    """A comparison that broke off before the first look is inconclusive, however clear it looks."""
    found = judged(tokenize, took([0.5, 0.5]))

    assert Outcome.INCONCLUSIVE == found.outcome
    assert "2 pairs" in found.reason


def test_a_change_that_did_not_take_effect_is_not_testable(tokenize: Contrast) -> None:
    """A gain without the change is no gain by the change; the reader is told what the trial really did."""
    found = judged(tokenize, record(pairs(around(0.5)), observed={"tokenize": "on_the_fly"}))

    assert Outcome.NOT_TESTABLE == found.outcome
    assert "tokenize is 'on_the_fly' in the trial, 'once' was asked for" in found.reason


def test_the_trial_tells_why_a_change_did_not_take_effect(tokenize: Contrast) -> None:
    """Where the trial knows the reason, it stands beside what was seen."""
    seen = {"tokenize": "on_the_fly", "why_not_tokenize": "there is no text"}
    found = judged(tokenize, record(pairs(around(0.5)), observed=seen))

    assert found.reason.endswith("'once' was asked for: there is no text")


def test_a_change_in_some_ranks_is_no_change(tokenize: Contrast) -> None:
    """What the first rank shows and others do not is not judged, however large."""
    found = judged(tokenize, record(pairs(around(0.5)), observed={"tokenize": "once", "unlike_ranks": ["tokenize"]}))

    assert found.outcome is Outcome.NOT_TESTABLE
    assert "other ranks have another value" in found.reason


def test_a_moved_control_voids_the_comparison(quick: Settings) -> None:
    """When data loading takes four times as long under another optimizer, no gain or loss is claimed."""
    shares = SHARES | {"data": 0.4, "backward": 0.15}
    fused = contrast(quick, optim="adamw_torch_fused")
    found = judged(fused, record(pairs(around(0.5), shares=shares), observed=fused.expects))

    assert Outcome.INCONCLUSIVE == found.outcome
    assert "something else changed" in found.reason


@pytest.mark.parametrize(
    ("device", "workers", "stands"),
    [("cuda", 0, True), ("cpu", 2, True), ("cpu", None, True), ("cpu", 0, False)],
    ids=["a device", "loader workers", "a loader that nobody saw", "nothing beside training"],
)
def test_a_wait_that_a_change_uncovers_leaves_its_verdict(
    device: str, workers: int | None, stands: bool, quick: Settings
) -> None:
    """Passes lost a quarter of the step, and a tenth of it is waited for data in their place: the rest is a gain.

    The page says what hides part of it. A process that fetches its batches itself can't uncover any wait.
    """
    after = SHARES | {"backward": 0.2, "data": 0.2}
    whole = sum(after.values())
    made = contrast(quick, gradient_checkpointing=False)
    seen = made.expects | {"dataloader_num_workers": workers}
    both = record(pairs(around(1 / whole - 1), shares={p: s / whole for p, s in after.items()}), observed=seen)
    found = judged(made, replace(both, baseline=replace(both.baseline, observed=seen)), device)

    assert stands is found.tells
    assert (Outcome.SUPPORTED if stands else Outcome.INCONCLUSIVE) == found.outcome
    assert stands is any("data wait grew by 10 %" in warning for warning in found.warnings)


def test_workers_may_slow_a_run_on_the_cpu(quick: Settings) -> None:
    """Loader workers take cores from training on a CPU, so there no phase is a control for them; on a GPU they are."""
    shares = SHARES | {"data": 0.0, "forward": 0.35}
    made = contrast(quick, CPU, dataloader_num_workers=2)
    measured = record(pairs(around(-0.2), shares=shares), observed={"dataloader_num_workers": 2})

    assert Outcome.REFUTED == judged(made, measured, "cpu").outcome
    assert Outcome.INCONCLUSIVE == judged(made, measured, "cuda").outcome


def test_out_of_memory_is_a_result(tokenize: Contrast) -> None:
    """A treatment that runs out of memory is a verdict with its status and the evidence, not an error."""
    trial = TrialRecord(arm="t", status=Status.OUT_OF_MEMORY, reason="needs 30 GiB of 24")
    found = judged(tokenize, replace(took([]), treatment=trial))

    assert (Outcome.NOT_TESTABLE, Status.OUT_OF_MEMORY) == (found.outcome, found.status)
    assert "out of memory: needs 30 GiB of 24" == found.reason


def test_a_failing_baseline_refutes_nothing(tokenize: Contrast) -> None:
    """When the baseline itself fails, nothing is said of the treatment."""
    trial = TrialRecord(arm="b", status=Status.CRASHED, reason="segmentation fault")
    found = judged(tokenize, replace(took(around(0.5)), baseline=trial))

    assert Outcome.INCONCLUSIVE == found.outcome
    assert "baseline itself failed" in found.reason


@pytest.mark.parametrize(
    ("about", "word"),
    [
        ({"redone": ["steal time"]}, "measured again"),
        ({"baseline": TrialRecord(arm="b", status=Status.OK, settled=False, losses=[2.0])}, "warm-up"),
    ],
)
def test_doubts_travel_with_the_verdict(tokenize: Contrast, about: dict, word: str) -> None:
    """Redone blocks and an unsettled warm-up are told beside the verdict."""
    trial = TrialRecord(arm="t", status=Status.OK, observed={"tokenize": "once"}, losses=[2.0])
    found = judged(tokenize, replace(took(around(0.2)), treatment=trial, **about))

    assert [True] == [word in warning for warning in found.warnings]


def test_losses_of_a_long_warm_up_are_said_to_show_nothing(tokenize: Contrast) -> None:
    """A change of the class exact rests on that alone."""
    warming = TrialRecord(arm="b", status=Status.OK, losses=[2.0] * 8, learning_rates=[1e-3 * i for i in range(8)])
    treatment = replace(warming, arm="t", observed={"tokenize": "once"})
    found = judged(tokenize, replace(took(around(0.2)), baseline=warming, treatment=treatment))
    (note,) = found.warnings

    assert "the learning rate only reached 0.7 % of the one that was set" in note
    assert note.endswith("it rests on the class that it is exact")
    assert found.loss_change is None


@pytest.mark.parametrize(
    ("gain", "words"), [(0.2, "regained after"), (-0.2, "never regained"), (0.0, "not known to be regained")]
)
def test_a_later_start_is_told_with_the_step_at_which_it_has_paid(tokenize: Contrast, gain: float, words: str) -> None:
    """Compiling for a minute is worth so many steps of the time that it saves in each; none if it saves nothing."""
    baseline = TrialRecord(arm="b", status=Status.OK, losses=[2.0], startup={"model": 3.0})
    observed = {"tokenize": "once", "recompilations": 2}
    treatment = replace(baseline, arm="t", observed=observed, startup={"model": 3.0, "first step": 60.0})
    measured = replace(took(around(gain, noise=0.0)), baseline=baseline, treatment=treatment)
    pair = measured.pairs[0]
    saved = pair.baseline.seconds / pair.baseline.steps - pair.treatment.seconds / pair.treatment.steps
    start, again = judged(tokenize, measured).warnings

    assert f"it starts 60 s later, which is {words}" in start
    assert not words.startswith("regained") or float(start.split()[-2].replace(",", "")) == pytest.approx(
        60 / saved, abs=1
    )
    assert again.startswith("compiled anew 2 times")


def test_what_a_change_leaves_is_what_is_sure(tokenize: Contrast) -> None:
    """A wait of 2 % in some blocks and 10 % in others is one of 6 % give or take, and counts from the lower end."""
    waits = np.random.default_rng(0).choice([0.02, 0.10], 60)
    measured = [p for data in waits for p in pairs([0.2], shares=SHARES | {"data": data})]
    found = judged(tokenize, record(measured, observed={"tokenize": "once"}))

    assert 0.03 < found.left["data"] < waits.mean()


def test_a_median_does_not_refute_what_takes_stalls_away(tokenize: Contrast) -> None:
    """Where the run itself stalls in few of the pairs, and not under the change, the median pair sees nothing, and the
    hypothesis is not refuted."""
    quick, stalled = [0.1] * 5, [0.1] * 4 + [3.0]
    waits = SHARES | {"data": 0.85, "forward": 0.05, "backward": 0.05, "optimizer": 0.02, "other": 0.01}
    made = [
        Pair(
            first="baseline",
            baseline=block(stalled, shares=waits) if i % 5 == 4 else block(quick),
            treatment=block(quick),
            launch=i,
        )
        for i in range(30)
    ]
    found = judged(tokenize, record(made, observed={"tokenize": "once"}))

    assert found.effect.median
    assert Outcome.INCONCLUSIVE == found.outcome
    assert "over all the time measured" in found.reason


def test_a_bound_on_few_steps_refutes_no_wait(quick: Settings) -> None:
    """Fifteen steps without a stall say nothing of a stall in every sixtieth: the wait is tried. The optimizer does
    the same work in each step, and its bound refutes."""
    few = facts(SHARES | {"data": 0.01, "optimizer": 0.01}, seen=15)
    wait = before_trial(contrast(quick, tokenize="once"), few, MINIMUM, None)
    work = before_trial(contrast(quick, optim="adamw_torch_fused"), few, MINIMUM, None)

    assert (Outcome.INCONCLUSIVE, Outcome.REFUTED) == (wait.outcome, work.outcome)
    assert wait.bound.ratio - 1 < MINIMUM
    assert "could have been missed" in str(wait.bound)


def test_an_exact_change_that_trains_otherwise_is_not_supported(tokenize: Contrast) -> None:
    """Other losses from the same seed are another training, and nothing is said of the speed."""
    baseline = TrialRecord(arm="b", status=Status.OK, losses=[9.0])
    treatment = TrialRecord(arm="t", status=Status.OK, observed={"tokenize": "once"}, losses=[8.0])
    found = judged(tokenize, replace(took(around(0.0)), baseline=baseline, treatment=treatment))

    assert Outcome.INCONCLUSIVE == found.outcome
    assert "losses" in found.reason


def with_losses(measured: ComparisonRecord, baseline: list[float], treatment: list[float]) -> ComparisonRecord:
    """The record with these losses of both arms, which train on the same samples."""
    observed = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 1, "padding": "longest"}
    return replace(
        measured,
        baseline=TrialRecord(arm="b", status=Status.OK, observed=observed, losses=baseline),
        treatment=TrialRecord(arm="t", status=Status.OK, observed=observed | {"tokenize": "once"}, losses=treatment),
    )


def test_a_run_whose_losses_differ_from_itself_shows_no_other_training(tokenize: Contrast) -> None:
    """An environment without a seed draws others in each launch, and so losses differ without a change."""
    draw = random.Random(0)
    a, b, c = ([3 - 0.03 * i + draw.gauss(0, 0.3) for i in range(32)] for _ in range(3))
    measured = with_losses(took(around(0.0)), a, b)

    def verdict(noise: ComparisonRecord | None) -> Verdict:
        prior, known = before_trial(tokenize, None, MINIMUM, None), RunContext(noise=noise)
        return judge(prior, tokenize, measured, MINIMUM, "cuda", known)

    found = verdict(with_losses(took(around(0.0)), a, c))

    assert found.outcome is Outcome.REFUTED, found.reason
    assert any("other losses in each launch" in warning for warning in found.warnings)
    for other in (verdict(None), verdict(with_losses(took(around(0.0)), a, a))):
        assert other.outcome is Outcome.INCONCLUSIVE
        assert "losses differ" in other.reason


def test_a_disturbed_block_is_counted(tokenize: Contrast) -> None:
    """Blocks that could not be redone stay in the figures and are told."""
    measured = took(around(0.2))
    first = measured.pairs[0]
    taken = replace(first, baseline=replace(first.baseline, interrupted="steal time"))
    found = judged(tokenize, replace(measured, pairs=[taken, *measured.pairs[1:]]))

    assert ["1 of 14 blocks were still interrupted: steal time"] == found.warnings


def test_a_bound_refutes_without_a_trial(quick: Settings) -> None:
    """A step that waits 2 % for data can't gain 5 % by loading; no GPU time is spent, and the reason has the figure."""
    found = before_trial(contrast(quick, tokenize="once"), facts(SHARES | {"data": 0.02}), MINIMUM, None)

    assert (Outcome.REFUTED, None) == (found.outcome, found.effect)
    assert "without a trial" in found.reason
    assert "at most 2.0 % of the step" in found.reason


def test_a_bound_above_the_minimum_needs_a_trial(quick: Settings) -> None:
    """A step that waits a tenth of its time may gain 11 %: that has to be measured, and supports nothing yet."""
    found = before_trial(contrast(quick, tokenize="once"), facts(), MINIMUM, None)

    assert (Outcome.INCONCLUSIVE, pytest.approx(1 / 0.9)) == (found.outcome, found.bound.ratio)


def test_a_combination_is_not_bounded_by_one_of_its_factors(quick: Settings) -> None:
    """Checkpointing can't be faster at the same batch, but with a bigger one it may: no bound, no free refutation."""
    made = contrast(quick, tokenize="once", per_device_train_batch_size=16)
    found = before_trial(made, facts(SHARES | {"data": 0.0}), MINIMUM, None)

    assert (Outcome.INCONCLUSIVE, None) == (found.outcome, found.bound)


def test_a_gain_beyond_its_bound_is_doubted(quick: Settings) -> None:
    """A measured gain that was impossible shows a wrong assumption, and the reader hears of it."""
    made = contrast(quick, tokenize="once")
    prior = before_trial(made, facts(SHARES | {"data": 0.06}), MINIMUM, None)
    found = judge(prior, made, took(around(0.3)), MINIMUM, "cuda")

    assert any("beyond its bound" in warning for warning in found.warnings)


def test_what_this_machine_lacks_is_not_testable(quick: Settings) -> None:
    """A paged optimizer on a CPU would be measured as something else; it is not testable, and the reason says so."""
    found = before_trial(contrast(quick, CPU, optim="paged_adamw_8bit"), facts(), MINIMUM, None)

    assert Outcome.NOT_TESTABLE == found.outcome
    assert "needs a CUDA device" in found.reason


def test_measuring_stops_when_decided() -> None:
    """A clear gain or a clear absence ends at the first look; what is undecided goes on; nothing ends between looks."""
    stop = StopRule(max_pairs=12, minimum_effect=MINIMUM).met

    assert [True, True, False, False] == [
        stop(pairs(around(0.3, n=3))),
        stop(pairs(around(0.0, n=3))),
        stop(pairs(around(0.05, noise=0.1, n=3))),
        stop(pairs(around(0.3, n=4))),
    ]


@pytest.mark.parametrize(
    ("gain", "noise", "n", "ends"),
    [
        (0.3, 0.02, 3, True),
        (-0.3, 0.02, 3, True),  # a loss is shown, too
        (0.0, 0.01, 9, True),  # neither is left
        (-0.14, 0.05, 3, False),  # no gain is left, and a loss may be
        (-0.14, 0.05, 9, True),
        (0.0, 0.5, 12, True),  # neither will be shown, nor both excluded
    ],
)
def test_two_nodes_are_asked_in_both_directions(gain: float, noise: float, n: int, ends: bool) -> None:
    """A slower one is measured until that is shown, as a faster one is."""
    rule = StopRule(max_pairs=30, minimum_effect=MINIMUM, two_sided=True)

    assert ends == rule.met(pairs(around(gain, noise=noise, n=n)))
    assert ends == rule.met(pairs(around(-gain, noise=noise, n=n)))


@pytest.mark.parametrize(
    ("gain", "noise", "n", "ends"),
    [
        (0.0, 0.3, 12, True),  # 30 such pairs could show 15 % and more
        (0.0, 0.3, 5, False),  # their scatter may be luck
        (0.15, 0.3, 9, False),
        (0.05, 0.02, 9, False),  # near the minimum effect, in little noise
        (0.03, 0.08, 24, True),
    ],
)
def test_measuring_stops_when_it_would_hardly_be_decided(gain: float, noise: float, n: int, ends: bool) -> None:
    """More pairs of such a scatter would leave open what is open; one that may still decide goes on."""
    seen = pairs(around(gain, noise=noise, n=n))

    assert ends == StopRule(max_pairs=30, minimum_effect=MINIMUM).met(seen)
    assert not StopRule(max_pairs=30, minimum_effect=MINIMUM, futility=0.0).met(seen)


def test_giving_up_loses_few_gains() -> None:
    """A true gain of 20 % in pairs that scatter by 15 % is found as often, and no gain ends after fewer pairs."""

    def ended(gain: float, futility: float) -> tuple[float, float]:
        stop = StopRule(max_pairs=30, minimum_effect=MINIMUM, futility=futility)
        found, spent = 0, 0
        for d in np.log1p(gain) + 0.15 * np.random.default_rng(9).standard_normal((60, 30)):
            compared = pairs(np.expm1(d))
            n = next(n for n in LOOKS if stop.met(compared[:n]))
            found, spent = found + (change(compared[:n]).lower > 0), spent + n
        return found / 60, spent / 60

    assert ended(0.2, 0.1)[0] >= ended(0.2, 0.0)[0] - 0.05
    assert ended(0.0, 0.1)[1] < 0.8 * ended(0.0, 0.0)[1]


@pytest.mark.parametrize(
    ("gain", "noise", "n", "ends"),
    [
        (0.4, 0.05, 3, False),  # it is shown, and may be a tenth or 80 %
        (0.4, 0.05, 7, True),
        (0.4, 0.005, 3, True),
        (0.1, 0.03, 12, True),  # a third of it is less than the minimum effect, which is fine enough
        (0.0, 0.005, 3, True),  # there is nothing to quote
    ],
)
def test_what_is_quoted_is_measured_until_its_size_is_known(gain: float, noise: float, n: int, ends: bool) -> None:
    """An effect that is shown at once still has a wide interval; the figure of a report goes on to a narrow one."""
    seen = pairs(around(gain, noise=noise, n=n))

    assert ends == StopRule(max_pairs=30, minimum_effect=MINIMUM, precision=1 / 3).met(seen)
    assert StopRule(max_pairs=30, minimum_effect=MINIMUM).met(seen)


@pytest.mark.parametrize(("noise", "n", "ends"), [(0.1, 3, False), (0.1, 12, True), (0.01, 3, True)])
def test_a_large_minimum_effect_makes_no_quoted_size_coarse(noise: float, n: int, ends: bool) -> None:
    """What has to double the throughput and does three times that is still known to a third."""
    rule = StopRule(max_pairs=30, minimum_effect=1.0, precision=1 / 3)

    assert ends == rule.met(pairs(around(2.0, noise=2 * noise, n=n)))


@pytest.mark.parametrize(
    ("gain", "outcome"), [(0.6, Outcome.REFUTED), (1.4, Outcome.SUPPORTED), (1.02, Outcome.SUPPORTED)]
)
def test_batches_are_too_small_only_if_larger_ones_are_twice_as_fast(
    quick: Settings, gain: float, outcome: Outcome
) -> None:
    """Every run gains something by larger batches, and nobody is to be told that it is ill for that."""
    asked = replace(contrast(quick, larger_batches=4), least=CATALOGUE["larger_batches"].least)
    measured = record(pairs(around(gain, 0.01, n=12)), observed=dict(asked.expects))
    found = judge(before_trial(asked, None, MINIMUM, None), asked, measured, asked.minimum_effect(MINIMUM), "cpu")

    assert found.outcome is outcome


def test_many_hypotheses_need_stronger_evidence() -> None:
    """What supports one hypothesis goes on being measured when it is one of twenty, so that Holm can't undo it."""
    likely = pairs(around(0.1, noise=0.01, n=3))

    assert (True, False) == tuple(
        StopRule(max_pairs=12, minimum_effect=MINIMUM, comparisons=n).met(likely) for n in (1, 20)
    )


def test_three_pairs_that_agree_are_no_proof_among_many_hypotheses() -> None:
    """Blocks of equal arms at two speeds agree on the same gain in one comparison of 64. It is one of many that do."""
    three, five = (pairs(around(0.2, noise=0.001, n=n)) for n in (3, 5))

    ends = [
        [StopRule(max_pairs=30, minimum_effect=MINIMUM, comparisons=m).met(p) for m in (1, 12)] for p in (three, five)
    ]
    assert [[True, False], [True, True]] == ends
    assert [True, False] == [change(p).p * 12 > NOMINAL_P for p in (three, five)]


def verdict(name: str, p: float, outcome: Outcome = Outcome.SUPPORTED) -> Verdict:
    return Verdict(
        name=name,
        factor=name,
        title=name,
        hypothesis="",
        cause="",
        meaning=Meaning.EXACT,
        changes="",
        outcome=outcome,
        reason="as measured",
        effect=Interval(mean=0.1, lower=0.05, upper=0.15, p=p, n=12),
        reading=Reading.FASTER,
    )


def test_one_comparison_needs_no_correction() -> None:
    """Alone, what was supported stays supported."""
    alone = [verdict("a", NOMINAL_P)]

    assert alone == holm(alone)


def test_holm_steps_down() -> None:
    """The strongest of three is held to p / 3, the next to p / 2, the last to p; after a failure all fail."""
    weak = NOMINAL_P * 0.9
    outcomes = [
        [v.outcome for v in holm([verdict("a", a), verdict("b", b), verdict("c", weak)])]
        for a, b in ((NOMINAL_P / 4, NOMINAL_P / 2.5), (NOMINAL_P / 4, weak), (weak, weak))
    ]

    yes, no = Outcome.SUPPORTED, Outcome.INCONCLUSIVE
    assert [[yes, yes, yes], [yes, no, no], [no, no, no]] == outcomes


def test_what_was_not_measured_costs_no_correction() -> None:
    """Hypotheses that a bound refuted, or that can't be tested, make the others no harder to support."""
    free = [replace(verdict(n, 1.0, Outcome.REFUTED), effect=None) for n in "xyz"]

    assert Outcome.SUPPORTED == holm([verdict("a", NOMINAL_P * 0.9), *free])[0].outcome


def test_holm_corrects_support_alone() -> None:
    """A refutation claims nothing and stays; a withdrawn support keeps its figures and says why."""
    refuted, withdrawn = holm([verdict("r", 0.5, Outcome.REFUTED), verdict("a", NOMINAL_P * 0.9)])

    assert Outcome.REFUTED == refuted.outcome
    assert "not told from chance after correcting for 2 comparisons (Holm at 5%); as measured" == withdrawn.reason


@pytest.mark.parametrize(
    ("launch", "notebooks"),
    [
        (0.01, 100),
        pytest.param(0.01, 300, marks=pytest.mark.exhaustive),
    ],
)
def test_notebooks_full_of_nothing_rarely_support_anything(batch: Contrast, launch: float, notebooks: int) -> None:
    """Five hypotheses without effect, on a noisy machine: one notebook in twenty at most supports any of them.

    Each launch of a trial is 1 % faster or slower for good, which no interleaving can average out.
    """
    each = 5
    rng = np.random.default_rng(7)
    slowdowns = np.exp(rng.normal(0.0, launch * np.sqrt(2), notebooks * each))
    times = step_times(rng, notebooks * each, sd=0.15, correlation=0.9)
    stop = StopRule(max_pairs=12, minimum_effect=MINIMUM, comparisons=each).met
    found = []
    for one, slowdown in zip(times, slowdowns, strict=True):
        (compared,) = comparisons(rng, one[None], slowdown)
        n = next((n for n in (3, 5, 7, 9) if stop(compared[:n])), 12)
        measured = record(compared[:n], observed={"per_device_train_batch_size": 8})
        found.append(replace(judged(batch, measured), name=str(len(found))))

    wrong = [any(v.outcome is Outcome.SUPPORTED for v in holm(found[i : i + each])) for i in range(0, len(found), each)]
    assert sum(wrong) / notebooks <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / notebooks)


def test_a_gain_is_supported_among_others(batch: Contrast) -> None:
    """A true gain of 20 % among four hypotheses without effect is supported in nine notebooks of ten."""
    rng = np.random.default_rng(8)
    found = []
    for one in comparisons(rng, step_times(rng, 60), slowdown=1 / 1.2):
        measured = record(one, observed={"per_device_train_batch_size": 8})
        others = [verdict(n, 0.5, Outcome.REFUTED) for n in "abcd"]
        found.append(holm([*others, judged(batch, measured)])[-1].outcome)

    assert found.count(Outcome.SUPPORTED) >= 54


def test_support_that_fresh_pairs_refute_is_none(batch: Contrast) -> None:
    """The change that noise flattered is no cause any more; one that was confirmed, or not asked again, still is."""
    seen = {"per_device_train_batch_size": 8}
    first, other, again = (judged(batch, record(pairs(around(g)), observed=seen)) for g in (0.2, 0.3, 0.0))
    found = reconsidered([first, replace(other, name="another")], [first, again])

    assert [Outcome.REFUTED, Outcome.SUPPORTED] == [v.outcome for v in found]
    assert "refuted by fresh ones" in found[0].reason
    assert (found[0].effect, found[0].reading, found[0].left) == (again.effect, again.reading, again.left)
    assert [first] == reconsidered([first], [other])


def test_what_had_to_be_large_is_refuted_by_fresh_pairs_that_show_it_to_be_small(batch: Contrast) -> None:
    """Batches are no longer far too small where larger ones bring 40 %, though that is a gain."""
    seen = {"per_device_train_batch_size": 8}
    first, again = (judged(batch, record(pairs(around(g, 0.01)), observed=seen)) for g in (1.1, 0.4))
    found = reconsidered([replace(first, least=1.0), replace(first, name="another")], [again])

    assert [Outcome.SUPPORTED] * 2 == [first.outcome, again.outcome]
    assert [Outcome.REFUTED, Outcome.SUPPORTED] == [v.outcome for v in found]


def test_support_whose_size_fresh_pairs_exclude_is_none(batch: Contrast) -> None:
    """Fresh pairs that decide nothing leave support as it is, unless they can't be of a change of that size.

    Pairs in which something else changed say nothing of that.
    """
    first = judged(batch, record(pairs(around(0.2)), observed={"per_device_train_batch_size": 8}))
    low, wide = (
        Interval(mean=mean, lower=mean - w, upper=mean + w, p=0.3, n=7) for mean, w in ((0.02, 0.08), (0.1, 0.2))
    )
    undecided = [replace(first, outcome=Outcome.INCONCLUSIVE, effect=effect) for effect in (low, wide)]
    undecided += [replace(undecided[0], tells=False)]
    withdrawn, kept, void = (reconsidered([first], [one])[0] for one in undecided)

    assert (withdrawn.outcome, withdrawn.effect) == (Outcome.INCONCLUSIVE, low)
    assert "exclude that size" in withdrawn.reason
    assert "did not confirm it (+10 %" in kept.doubt
    assert replace(kept, doubt="") == void == first


@pytest.mark.parametrize("part", [0.0, 0.2])
def test_what_a_change_leaves_counts_events_that_are_timed_beside_the_steps(quick: Settings, part: float) -> None:
    """Larger batches of an evaluation that still takes a fifth of the time have not taken it away."""
    settings = override(quick, {"training_arguments.eval_strategy": "steps", "training_arguments.eval_steps": 50})
    made = contrast(settings, per_device_eval_batch_size=16)
    measured = took(around(0.1))

    def with_event(block: Block) -> Block:
        seconds = part / (1 - part) * block.seconds
        phases = block.phases | {"evaluate": seconds}
        return replace(block, seconds=block.seconds + seconds, phases=phases, amortised={"evaluate": seconds})

    evaluated = [replace(pair, treatment=with_event(pair.treatment)) for pair in measured.pairs]
    observed = {"per_device_eval_batch_size": 16}
    trial = replace(measured.treatment, observed=observed)
    found = judged(made, replace(measured, pairs=evaluated, treatment=trial))

    assert found.left["evaluate"] == pytest.approx(part)
    assert found.left_at_most["evaluate"] == pytest.approx(part, abs=0.01)
