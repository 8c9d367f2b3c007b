"""Floating-point operations of a training step, counted as the PaLM paper counts them (arXiv 2204.02311, appendix B).

N is the number of parameters that multiply; embeddings that are only looked up do not. The forward pass takes 2N a
token. The backward pass takes twice that where weights are trained, and 2N (for the activations) where they are frozen.
So full training takes 6N, and LoRA 4N + 6 N_lora. Attention adds 12 * layers * hidden * T for both passes, where T is
the sequence length; LoRA does not reduce it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ALLOWANCE = 3.0
"""The most by which a share of the time may exceed a share of the FLOPs, as a factor. Attention and low-rank products
run at a lower rate than the large products; more than three times has not been seen on current devices."""


@dataclass(frozen=True, kw_only=True)
class TokenFlops:
    """FLOPs a token, by part. Recomputation is work that is done and not needed, so MFU leaves it out."""

    weights: float
    attention: float
    adapter: float
    forward: float
    recomputation: float

    @property
    def backward(self) -> float:
        """Return the FLOPs a token of the backward pass, recomputation included."""
        return self.needed - self.forward + self.recomputation

    @property
    def needed(self) -> float:
        """Return the FLOPs a token that the model needs: MFU's numerator."""
        return self.weights + self.attention + self.adapter

    @property
    def attention_share(self) -> float:
        """Return the share of the needed work, 0 to 1, that is attention's quadratic part."""
        return self.attention / self.needed

    @property
    def adapter_share(self) -> float:
        """Return the share of the needed work, 0 to 1, that is the adapter's."""
        return self.adapter / self.needed


def token_flops(observed: dict[str, Any], length: float) -> TokenFlops | None:
    """Return the FLOPs a token of a model at sequences of `length`; None if the trial did not observe its sizes."""
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
