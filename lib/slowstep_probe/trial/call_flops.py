"""The floating-point operations of one call of a module: its weights, times the positions at which they multiply."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import Linear, RNNBase, RNNCellBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd


def call_flops(module: Any, inputs: Any, output: Any) -> float:
    """Return the FLOPs of a forward pass through a linear layer, a convolution, a recurrent layer or a cell of one.

    A multiply-add counts as two, as with Kaplan et al. 2020 (section 2.1). 0 where they are not known: for any other
    module, and for weights that are packed, sharded or made from others.
    """
    if not isinstance(module, Linear | _ConvNd | RNNBase | RNNCellBase):
        return 0.0
    held = [w for w in module._parameters.values() if w is not None and w.dim() >= 2 and w.is_floating_point()]
    out = _first(inputs if isinstance(module, _ConvTransposeNd) else output)
    if not held or out is None or out.is_nested or not out.numel():
        return 0.0
    return 2.0 * sum(w.numel() for w in held) * out.numel() / _channels(module, out)


def _channels(module: Any, out: Tensor) -> int:
    """Return how many numbers there are at each position."""
    if isinstance(module, _ConvTransposeNd):
        return int(module.in_channels)
    return int(module.out_channels) if isinstance(module, _ConvNd) else out.shape[-1]


def _first(values: Any) -> Tensor | None:
    """Return the first tensor of an output, or of arguments; None if there is none."""
    while isinstance(values, tuple | list) and values:
        values = values[0]
    return values if isinstance(values, Tensor) else None
