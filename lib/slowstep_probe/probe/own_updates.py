"""Updates of weights by a program's own code, or by a library's whose optimizers are none of PyTorch's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import torch
from torch.utils._python_dispatch import _disable_current_modes

from slowstep_probe.looks import looking, with_size

IN_A_ROW = 3
"""Backward passes, one after the other, each with a step before it: then each makes a step."""

MOST = 64
"""The most weights of a model that are looked at."""

VALUES = 4
"""The values of each that are kept."""

GRADIENTS = 4096
"""The values of each weight's gradient that are looked at. The first few may be those of a token that no batch has."""


class OwnUpdates:
    """Tells whether a step lies between all backward passes of a program in which nothing else ends a step.

    A step has changed the weights, and its gradients are gone before the next pass. Weights also change within a step:
    where a layer normalises them at each call, where a teacher follows the model, or where noise is added. A program
    that accumulates gradients still has them then.

    Looking at weights waits for their device, so it is done before the first passes alone.
    """

    def __init__(self) -> None:
        self._before: list[tuple[object, ...]] = []
        self._steps = 0
        """Backward passes in a row that had a step before them."""

    def pass_begins(self, models: Iterable[torch.nn.Module]) -> bool:
        """Look at the weights before a backward pass; return whether enough passes in a row had a step before them."""
        self._steps = self._steps + 1 if looking(self._step_before)(models) else 0
        return self._steps >= IN_A_ROW

    def _step_before(self, models: Iterable[torch.nn.Module]) -> bool:
        """Return whether a step lies between the last pass and the one that begins."""
        before, self._before = self._before, []
        with torch._C.DisableTorchFunction(), _disable_current_modes():  # the program's modes are for its own operators
            weights = _looked_at(models)
            self._before = [_values(weight) for weight in weights]
            changed = len(before) == len(self._before) and before != self._before
            return changed and not _any_gradient(weights)


def _looked_at(models: Iterable[torch.nn.Module]) -> list[torch.nn.Parameter]:
    """Return weights that can be trained, some of each model."""
    found: list[torch.nn.Parameter] = []
    for model in models:
        trained = (weight for weight in with_size(model.parameters()) if weight.requires_grad and weight.numel())
        found += islice(trained, MOST)
    return found


def _values(weight: torch.Tensor) -> tuple[object, ...]:
    """Return the first values of a weight. One that is not a number is None, which equals itself."""
    values = weight.detach().reshape(-1)[:VALUES].to("cpu").tolist()
    return tuple(value if value == value else None for value in values)


def _any_gradient(weights: Sequence[torch.Tensor]) -> bool:
    """Return whether any of the weights has a gradient that is not zero."""
    for weight in weights:
        gradient = weight.grad
        if gradient is None:
            continue
        gradient = gradient.detach()
        values = gradient._values() if gradient.is_sparse else gradient
        if values.reshape(-1)[:GRADIENTS].any().item():
            return True
    return False
