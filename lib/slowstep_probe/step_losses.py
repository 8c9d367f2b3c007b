"""The losses of optimizer steps, put together from those of their micro-batches. Nothing is read from the device."""

from __future__ import annotations

from typing import Any

import torch

KEPT = 64
"""The most losses that are kept of the first steps."""


class StepLosses:
    """Losses as they come to backward passes, gathered step by step."""

    def __init__(self) -> None:
        self._kept: list[torch.Tensor] = []
        self._last: torch.Tensor | None = None
        self._parts: list[torch.Tensor] = []
        """Those of the step under way, scaled so that their sum is the step's loss."""
        self._unscaled: torch.Tensor | None = None
        """The loss before fp16's scaling, which keeps small gradients from vanishing."""

    def __len__(self) -> int:
        """Return the number of backward passes in the step under way."""
        return len(self._parts)

    @property
    def first(self) -> list[float]:
        """The losses of the first steps, at most `KEPT`."""
        return [float(loss.float()) for loss in self._kept]

    @property
    def last(self) -> float | None:
        """The loss of the last step; None before the first."""
        return None if self._last is None else float(self._last.float())

    def before_scaling(self, _: Any, outputs: Any) -> None:
        """Take what a GradScaler is about to scale for the loss of the next backward pass."""
        self._unscaled = outputs

    def add(self, loss: Any) -> None:
        """Add the loss of a backward pass to the step under way: a tensor, or a nest of them; of each its mean.

        It is copied: the memory of a loss that a CUDA graph gives is used again by the graph's next run.
        """
        true, self._unscaled = loss if self._unscaled is None else self._unscaled, None
        means = [one.detach().clone() if one.numel() == 1 else one.detach().float().mean() for one in _tensors(true)]
        self._parts.append(_sum(means) if means else torch.zeros(()))

    def forget(self) -> None:
        """Drop what was added to the step under way."""
        self._parts = []

    def step_ended(self) -> torch.device:
        """Put the losses of the step together, at least one, and return the device that they lie on."""
        self._last = _sum(self._parts)
        self._kept += [self._last] * (len(self._kept) < KEPT)
        self._parts = []
        return self._last.device


def _sum(losses: list[torch.Tensor]) -> torch.Tensor:
    """Return the sum of single numbers. They may lie on several devices; it lies on the last one that is no CPU."""
    device = next((one.device for one in reversed(losses) if one.device.type != "cpu"), losses[-1].device)
    first, *others = [one.to(device) for one in losses]
    return sum(others, first)


def _tensors(nest: Any) -> list[torch.Tensor]:
    """Return the tensors in a nest of sequences that hold numbers."""
    if isinstance(nest, torch.Tensor):
        return [nest] * (nest.numel() > 0)
    return [one for part in nest for one in _tensors(part)] if isinstance(nest, list | tuple) else []
