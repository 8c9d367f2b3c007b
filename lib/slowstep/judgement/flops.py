"""Floating-point operations of a training step, counted as the PaLM paper counts them (arXiv 2204.02311, appendix B).

N = parameters that multiply (embeddings looked up are none). Forward 2N a token; backward twice that where weights
are trained, and once (2N, for the activations) where they are frozen: full training 6N, LoRA 4N + 6 N_lora.
Attention adds 12 * layers * hidden * T forward and backward, at T the sequence length; LoRA does not reduce it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ALLOWANCE = 3.0
"""Attention and low-rank products run at a lower rate than the large products, so a share of the FLOPs is not a share
of the time. Up to three times the FLOP share is allowed for; beyond that no one has seen it on current devices."""


@dataclass(frozen=True, kw_only=True)
class TokenFlops:
    """FLOPs a token, by part. Recomputation is work done and not work needed, so MFU leaves it out."""

    weights: float
    attention: float
    adapter: float
    forward: float
    recomputation: float

    @property
    def backward(self) -> float:
        """What the backward pass does, recomputation included."""
        return self.needed - self.forward + self.recomputation

    @property
    def needed(self) -> float:
        """What the model needs; MFU's numerator."""
        return self.weights + self.attention + self.adapter

    @property
    def attention_share(self) -> float:
        """The quadratic part of the needed work."""
        return self.attention / self.needed

    @property
    def adapter_share(self) -> float:
        """The adapter's part of the needed work."""
        return self.adapter / self.needed


def token_flops(observed: dict[str, Any], length: float) -> TokenFlops | None:
    """FLOPs a token of a model as the trial observed it, at sequences of `length`; None if it didn't say its sizes."""
    try:
        matmul, trained = observed["matmul_parameters"], observed["trained_parameters"]
        layers, hidden = observed["layers"], observed["hidden_size"]
    except KeyError:
        return None
    lora = observed.get("lora_r") is not None
    frozen = matmul - trained if lora else 0
    weights = 4.0 * frozen if lora else 6.0 * matmul
    again = 1.0 / (observed.get("every_n_layers") or 1) if observed.get("gradient_checkpointing") else 0.0
    forward = 2.0 * matmul + 4.0 * layers * hidden * length
    return TokenFlops(
        weights=weights,
        attention=12.0 * layers * hidden * length,
        adapter=6.0 * trained if lora else 0.0,
        forward=forward,
        recomputation=again * forward,
    )
