"""What a factor could bring at most, known before its trial."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulated import SHARES, facts, profiled
from slowstep.factors import CATALOGUE
from slowstep.judgement.bounds import BOUNDS, bound
from slowstep.judgement.intervals import interval
from slowstep.judgement.run_facts import RunFacts
from slowstep.records import Operator

SIZES = {"matmul_parameters": 7e9, "trained_parameters": 7e9, "layers": 32, "hidden_size": 4096, "lora_r": None}
SIZES |= {"max_length": 100}


def ratio(name: str, value: object = None, epoch: int | None = None, **known: object) -> float:
    return bound(name, facts(**known), value, epoch).ratio


def test_every_named_bound_exists() -> None:
    """A factor of the catalogue never asks for a bound that nobody wrote."""
    assert {f.bound for f in CATALOGUE.values()} - {None} <= set(BOUNDS)


@pytest.mark.parametrize("name", BOUNDS)
def test_what_was_not_measured_gives_no_bound_or_a_possible_one(name: str) -> None:
    """Without sizes, tokens or an epoch a bound is absent or at least 1: nothing is refuted by ignorance."""
    found = bound(name, facts(), True, None)

    assert found is None or found.ratio >= 1.0


@pytest.mark.parametrize(("name", "phase"), [("data", "data"), ("optimizer", "optimizer")])
def test_a_phase_brings_at_most_its_share(name: str, phase: str) -> None:
    """Making a tenth of the step free brings 1 / 0.9."""
    assert 1 / (1 - SHARES[phase]) == pytest.approx(ratio(name))


def test_noise_widens_a_bound() -> None:
    """A share that is known badly bounds less: no factor is dropped because of a noisy baseline."""
    assert ratio("optimizer") + 0.01 < ratio("optimizer", noise=0.2, seen=20)


def test_no_share_makes_a_bound_infinite() -> None:
    """A phase that is almost the whole step, known badly, still gives a finite bound."""
    assert ratio("optimizer", shares={"optimizer": 0.97}, noise=0.5) <= 100.01


def test_recomputation_is_one_forward_pass() -> None:
    """Gradient checkpointing off brings T / (T - T_forward) at most: 1.33 at a quarter, never 4 times."""
    assert 1 / (1 - SHARES["forward"]) == pytest.approx(
        ratio("recomputation", False, observed={"gradient_checkpointing": True})
    )


def test_checkpointing_on_brings_no_speed() -> None:
    """At the same batch, recomputing more can't be faster, so nobody has to measure it."""
    assert 1.0 == ratio("recomputation", True, observed={"gradient_checkpointing": False})


def test_padding_brings_at_most_the_padding() -> None:
    """With a fifth of the positions padding, its removal brings 1.25 at most where attention is nearly free, a little
    more where it is not, and padding to the maximum nothing."""
    assert 1.25 < ratio("padding", "longest", padding=25, observed=SIZES) < 1.25 * 1.02
    assert 1.0 == ratio("padding", "max_length", padding=25)


def test_padding_refutes_by_the_batches_of_an_epoch_and_not_of_a_few_blocks() -> None:
    """The blocks met 3 % of padding. Long texts that come in one batch of forty make it 40 % of the epoch's positions,
    and where nobody knows the epoch, they may. Rows that are all full have no such batches."""
    job = SIZES | {"epoch_steps": 100}
    alike, long, unknown, full = (
        bound("padding", facts(padding=padding, observed=seen), "longest", None)
        for padding, seen in (
            (3, job | {"epoch_padded_tokens": 100 * 8 * 103}),
            (3, job | {"epoch_padded_tokens": 100 * 8 * 170}),
            (3, SIZES),
            (0, SIZES),
        )
    )

    assert (1.04, True) == (pytest.approx(alike.ratio, abs=0.01), alike.suffices)
    assert (1.71, True) == (pytest.approx(long.ratio, abs=0.04), long.suffices)
    assert (1.04, False) == (pytest.approx(unknown.ratio, abs=0.01), unknown.suffices)
    assert (1.01, True) == (pytest.approx(full.ratio, abs=0.01), full.suffices)
    assert not bound("sampling", facts(padding=3, observed=SIZES), "group_by_length", None).suffices


def test_padding_of_an_unknown_model_has_no_bound() -> None:
    """Attention over padding is quadratic, and how much that is nobody can say without the model's sizes."""
    assert bound("padding", facts(padding=25), "longest", None) is None


def test_packing_has_no_bound() -> None:
    """Packing also puts more tokens into a step, so the share of padding does not limit what it brings."""
    assert bound("padding", facts(padding=25), "packing", None) is None


def test_sequence_length_can_only_shrink_the_quadratic_part() -> None:
    """For a 7B model at 100 tokens attention is half a percent of the work: length is no lever per useful token."""
    assert 1.0 < ratio("attention", 50, observed=SIZES) < 1.02


def test_a_small_adapter_bounds_its_rank() -> None:
    """An adapter of 0.1 % of the weights is no reason for slow steps."""
    small = SIZES | {"trained_parameters": 7e6, "lora_r": 16}

    assert 1.0 < ratio("lora_rank", 8, observed=small) < 1.01


def test_persistent_workers_can_save_only_the_start_of_an_epoch() -> None:
    """In a long epoch the start of workers is nothing; in a short one it may be much."""
    assert ratio("epoch_start", True, epoch=10_000_000) < 1.01 < 1.5 < ratio("epoch_start", True, epoch=1000)


@pytest.mark.parametrize("epoch_steps", [20, 21])
def test_epochs_that_were_seen_to_begin_tell_what_the_start_of_workers_takes(epoch_steps: int) -> None:
    """Workers that start take cores, so that the passes of the first steps are longer, too. An epoch may end with what
    is left of its samples, or where its last full batch does."""
    known = facts(observed={"epoch_steps": epoch_steps})
    slow, batch = known.timeline.phases["forward"].copy(), 8
    step = known.throughput.seconds_per_step
    slow[known.timeline.position % (epoch_steps * batch) == 0] += 5 * step
    begun = replace(known, timeline=replace(known.timeline, phases=known.timeline.phases | {"forward": slow}))
    found = bound("epoch_starts_seen", begun, True, 20 * batch)

    assert found.ratio == pytest.approx(1 / (1 - 5 / 20), rel=0.1)
    assert not found.suffices
    assert bound("epoch_starts_seen", known, True, 20 * batch).ratio < 1.01


@pytest.mark.parametrize(("waited", "most"), [(None, 10.0), (2.0, 10.0), (90.0, 90.0)])
def test_workers_that_start_slowly_are_worth_keeping(waited: float | None, most: float) -> None:
    """A launch shows how long they take: one by one they may be sent a data set of gigabytes."""
    known = replace(facts(), first_wait=waited)
    samples = round(300 * known.throughput.samples_per_second)
    found = bound("epoch_start", known, True, samples)

    assert found.ratio == pytest.approx(1 + most / 300)
    assert f"in {most:.0f} s at the very most" in found.why


def test_few_examples_are_no_evidence_about_the_data_of_a_large_job() -> None:
    """Where the trials' examples come again before the job's do, the steps beyond them tell nothing of a rare slow
    item; waits that have nothing to do with data are told by every step."""
    known = {"device": "cpu", "distinct_steps": 250}
    repeated, whole = facts(observed=known | {"epoch_steps": 2500}), facts(observed=known | {"epoch_steps": 250})

    assert not bound("data", repeated, None, None).suffices
    assert "250 distinct steps" in str(bound("data", repeated, None, None))
    assert bound("data", whole, None, None).suffices
    assert bound("log", repeated, None, None).suffices


def test_the_ceiling_overrules_the_wait() -> None:
    """Where batches in memory bring more than the wait explains, data loading may bring that much."""
    known = replace(facts(), cached_batch_ceiling=interval([0.39, 0.40, 0.41]))

    assert bound("data", known, 2, None).ratio == pytest.approx(known.cached_batch_ceiling.high)


def test_a_ceiling_that_was_shown_raises_the_bound_by_all_that_it_may_bring() -> None:
    """A test that stops when something is shown has a low lower end: that does not leave the wait as the most."""
    shown, open_one = (replace(facts(), cached_batch_ceiling=interval(gains)) for gains in ([0.01, 0.2], [-0.1, 0.3]))
    shown = replace(shown, cached_batch_ceiling=replace(shown.cached_batch_ceiling, lower=0.01, upper=0.9))

    assert bound("data", shown, 2, None).ratio == pytest.approx(shown.cached_batch_ceiling.high)
    assert bound("data", open_one, 2, None) == bound("data", facts(), 2, None)


def test_a_lower_ceiling_does_not_lower_the_bound() -> None:
    """A few pairs may have met none of the waits that the steps of the whole investigation have."""
    known = replace(facts(), cached_batch_ceiling=interval([-0.02, -0.019, -0.018]))

    assert bound("data", facts(), 2, None) == bound("data", known, 2, None)


def test_a_bound_says_why() -> None:
    """A reader sees the figure and its reason in one sentence."""
    text = str(bound("optimizer", facts(), "adamw_bnb_8bit", None))

    assert text.startswith("at most +11 %: the optimizer is at most 10 % of the step (seen on 2,010 distinct steps in ")


def in_bf16(peak: float, **observed: object) -> float | None:
    """The bound of bf16 for a run of known FLOPs, where the device does `peak` FLOP/s in it."""
    found = bound("precision", known_in(peak, **observed), "bf16", None)
    return found and found.ratio


def known_in(peak: float, **observed: object) -> RunFacts:
    """A run of known FLOPs that uses half of its device, which does `peak` FLOP/s in bf16."""
    known = facts(observed=SIZES | observed)
    needed = known.throughput.useful_tokens_per_second * (known.flops.needed - known.flops.attention / 2)
    return replace(known, peak_flops=2 * needed, other_peaks={"bfloat16": peak, "float32": peak})


@pytest.mark.parametrize(("calls", "least", "most"), [(5, 1.1, 1.5), (50_000, 2.5, 3.5)])
def test_what_larger_batches_may_bring_is_guessed_by_what_a_step_is_made_of(
    calls: int, least: float, most: float
) -> None:
    """The same time grows with a batch in a few large operators, and does not in thousands of small calls."""
    seen = profiled({"forward": {}})
    operators = [Operator(name="aten::mm", calls=calls, seconds=0.3)]  # of five steps of 0.1 s
    found = bound("fixed", facts(profile=replace(seen, by_phase={"forward": operators})), 4, None)

    assert not found.suffices
    assert least < found.ratio < most


def test_an_emulated_precision_is_bounded_by_its_own_products() -> None:
    """Where products in bf16 alone take ten times today's step, a run in it reaches a tenth; a fast device says
    nothing, nor does a precision that was not measured, nor weights that are multiplied in one of their own."""
    known = facts(observed=SIZES)
    needed = known.throughput.useful_tokens_per_second * (known.flops.needed - known.flops.attention / 2)

    assert in_bf16(needed / 10) == pytest.approx(0.1)
    assert in_bf16(1.5 * needed) == pytest.approx(1.5)
    assert in_bf16(10 * needed) is None
    assert bound("precision", replace(known_in(needed / 10), other_peaks={}), "bf16", None) is None
    assert bound("precision", replace(known_in(needed / 10), peak_flops=None), "bf16", None) is None
    assert bound("precision", known_in(needed / 10, tf32=True), "fp32", None) is None
    assert in_bf16(needed / 10, weight_bits=4) is None


@pytest.mark.parametrize("more", [{"padding": 100}, {"observed": SIZES | {"gradient_checkpointing": True}}])
def test_all_that_is_computed_is_computed_in_the_other_precision(more: dict) -> None:
    """Padding and recomputation are no useful work, and another precision does not leave them out."""
    known, plain = facts(**({"observed": SIZES} | more)), facts(observed=SIZES)
    peaks = {"peak_flops": 1e18, "other_peaks": {"bfloat16": 1e13}}
    longer, shorter = (bound("precision", replace(f, **peaks), "bf16", None).ratio for f in (known, plain))

    assert longer < 0.8 * shorter


@pytest.mark.parametrize(("times", "refutes"), [(0.1, True), (0.4, True), (0.7, False), (1.5, False)])
def test_a_peak_refutes_only_where_the_precision_is_emulated(times: float, refutes: bool) -> None:
    """A measured peak scatters by more than a little, so one that is a little short of today's speed says nothing."""
    needed = known_in(1.0).peak_flops / 2
    assert bound("precision", known_in(times * needed), "bf16", None).suffices == refutes
