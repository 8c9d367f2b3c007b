"""Updates of weights by a program's own code, or by a library's whose optimizers are none of PyTorch's."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import torch

from slowstep_probe.looks import looking, with_size

IN_A_ROW = 3
"""Backward passes, one after the other, each with other weights than the one before: then each makes a step."""

MOST = 64
"""The most weights of a model that are looked at."""

VALUES = 4
"""The values of each that are kept."""


class OwnUpdates:
    """Tells whether weights are changed between all backward passes of a program in which nothing else ends a step.

    Looking at weights waits for their device, so it is done before the first passes alone.
    """

    def __init__(self) -> None:
        self._before: list[torch.Tensor] = []
        self._changed = 0
        """Backward passes in a row that had other weights than the one before."""

    def pass_begins(self, models: Iterable[torch.nn.Module]) -> bool:
        """Look at the weights before a backward pass; return whether those of enough passes in a row have differed."""
        now = looking(_values)(models) or []
        same = len(now) == len(self._before) and all(map(torch.equal, now, self._before))
        self._changed = 0 if same or len(now) != len(self._before) else self._changed + 1
        self._before = now
        return self._changed >= IN_A_ROW


def _values(models: Iterable[torch.nn.Module]) -> list[torch.Tensor]:
    """Return copies of some values of the weights that can be trained."""
    found: list[torch.Tensor] = []
    for model in models:
        trained = (weight for weight in with_size(model.parameters()) if weight.requires_grad and weight.numel())
        found += [weight.detach().reshape(-1)[:VALUES].to("cpu", copy=True) for weight in islice(trained, MOST)]
    return found
