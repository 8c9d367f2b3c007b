"""Throughput in every unit, and the unit that is judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simulated import block, pairs
from slowstep.judgement.comparison import log_ratios, result_of
from slowstep.judgement.controls import moved_controls
from slowstep.judgement.throughput import throughput, unit, works


def test_bigger_batches_in_more_time_are_the_same_speed() -> None:
    """2.13 s a step at batch 32 and 6.39 s at batch 96: a third of the steps a second, the same samples and tokens."""
    small, big = throughput([block([2.13] * 3, samples=32)]), throughput([block([6.39] * 3, samples=96)])

    assert 3.0 == pytest.approx(big.seconds_per_step / small.seconds_per_step)
    assert small.samples_per_second == pytest.approx(big.samples_per_second)
    assert small.useful_tokens_per_second == pytest.approx(big.useful_tokens_per_second)


def test_throughput_is_a_ratio_of_totals() -> None:
    """A slow block weighs by its time: 8 samples in 1 s and 8 in 3 s are 4 a second, not the mean of the rates."""
    assert 4.0 == throughput([block([1.0]), block([3.0])]).samples_per_second


def test_padding_is_not_useful() -> None:
    """A quarter of the positions padding: three quarters of the throughput is useful."""
    found = throughput([block([1.0], samples=1, tokens=75, padding=25)])

    assert (100.0, 75.0, 0.75) == (
        found.padded_tokens_per_second,
        found.useful_tokens_per_second,
        found.useful_share,
    )


def test_not_measured_is_not_zero() -> None:
    """Data without tokens has no token rates, in one block or in all."""
    found = throughput([block([1.0]), block([1.0], tokens=None)])

    assert (None, None) == (found.useful_tokens_per_second, found.useful_share)
    assert 8.0 == found.samples_per_second


def test_tokens_are_judged_where_there_are_any() -> None:
    """Useful tokens are the work; samples only where there are none."""
    text, pixels = block([1.0], samples=2, tokens=50), block([1.0], samples=2, tokens=None)

    assert (100.0, "useful tokens/s") == (works([text])[0][0], unit([text]))
    assert (2.0, "samples/s") == (works([pixels])[0][0], unit([pixels]))


@pytest.mark.parametrize("tokens", [None, 0])
def test_blocks_are_counted_in_one_unit_though_not_all_have_tokens(tokens: int | None) -> None:
    """A mask in which True is padding has no useful tokens where nothing is padded."""
    known = pairs(np.zeros(4))
    odd = replace(known[2].treatment, work=replace(known[2].treatment.work, useful_tokens=tokens))
    mixed = [*known[:2], replace(known[2], treatment=odd), known[3]]

    assert unit([p.treatment for p in mixed]) == "samples/s"
    assert log_ratios(mixed) == pytest.approx(log_ratios(known))
    assert result_of(mixed).total_ratio == pytest.approx(1.0)
    assert moved_controls(mixed, frozenset()) == []
