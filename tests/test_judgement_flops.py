"""FLOPs a token, against figures worked out by hand."""

from __future__ import annotations

import pytest

from slowstep.judgement.flops import token_flops

MISTRAL = {
    "matmul_parameters": 7.11e9,
    "trained_parameters": 7.11e9,
    "layers": 32,
    "hidden_size": 4096,
    "lora_r": None,
    "gradient_checkpointing": False,
}
ADAPTER = 42e6
LORA = MISTRAL | {"matmul_parameters": 7.11e9 + ADAPTER, "trained_parameters": ADAPTER, "lora_r": 16}


def test_full_training_is_six_times_the_weights() -> None:
    """2N forward and 4N backward, as in the PaLM paper."""
    assert 6 * 7.11e9 == token_flops(MISTRAL, 1024).weights


def test_frozen_weights_need_four() -> None:
    """LoRA computes no gradient of the frozen weights: 4N, and 6N of the adapter."""
    found = token_flops(LORA, 1024)

    assert (4 * 7.11e9, 6 * ADAPTER) == (pytest.approx(found.weights), found.adapter)


def test_attention_is_the_same_under_lora() -> None:
    """12 L d T a token, whatever is trained."""
    assert 12 * 32 * 4096 * 1024 == token_flops(MISTRAL, 1024).attention == token_flops(LORA, 1024).attention


def test_attention_of_mistral_is_a_twentieth() -> None:
    """At 1024 tokens the quadratic part of a LoRA step of Mistral-7B is about 5 %."""
    assert 0.05 == pytest.approx(token_flops(LORA, 1024).attention_share, abs=0.005)


def test_recomputation_is_done_and_not_needed() -> None:
    """Checkpointing adds one forward pass to the work done (8N), and nothing to what MFU counts (6N)."""
    plain, recomputing = token_flops(MISTRAL, 0), token_flops(MISTRAL | {"gradient_checkpointing": True}, 0)

    assert 8 * 7.11e9 == recomputing.needed + recomputing.recomputation
    assert (plain.needed, 0.0) == (recomputing.needed, plain.recomputation)


@pytest.mark.parametrize("missing", ["matmul_parameters", "trained_parameters", "layers", "hidden_size"])
def test_unknown_sizes_give_no_figure(missing: str) -> None:
    """A model that doesn't say its sizes has no FLOPs, instead of guessed ones."""
    assert token_flops({k: v for k, v in MISTRAL.items() if k != missing}, 1024) is None
