"""The floating-point operations of one call of a module: its weights, times the positions at which they multiply."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor
from torch.nn import Embedding, EmbeddingBag, RNNBase, RNNCellBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd


def call_flops(module: Any, inputs: Any, output: Any) -> float:
    """Return the FLOPs of a forward pass through a module's own weights, without those of its parts.

    A multiply-add counts as two, as with Kaplan et al. 2020 (section 2.1). `math.inf` if the output does not tell the
    number of positions.
    """
    weights = sum(p.numel() for p in module.parameters(recurse=False) if p.dim() >= 2)
    if not weights or isinstance(module, Embedding | EmbeddingBag):
        return 0.0
    out = _first(inputs if isinstance(module, _ConvTransposeNd) else output)
    if out is None or not out.numel():
        return math.inf
    return 2.0 * weights * out.numel() / _channels(module, out)


def _channels(module: Any, out: Tensor) -> int:
    """Return how many numbers there are at each position."""
    if isinstance(module, _ConvTransposeNd):
        return int(module.in_channels)
    if isinstance(module, _ConvNd):
        return int(module.out_channels)
    if isinstance(module, RNNBase | RNNCellBase):
        return int(module.hidden_size)
    return out.shape[-1] if out.dim() else 1


def _first(values: Any) -> Tensor | None:
    """Return the first tensor of an output, or of arguments; None if there is none."""
    while isinstance(values, tuple | list) and values:
        values = values[0]
    return values if isinstance(values, Tensor) else None
