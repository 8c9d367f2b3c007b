"""The losses of optimizer steps, put together from those of their micro-batches. Nothing is read from the device."""

from __future__ import annotations

import math
from typing import Any

import torch

from slowstep_probe.by_identity import ByIdentity
from slowstep_probe.looks import looking

PART = 2**20
"""The numbers on the host that are added up at once."""

KEPT = 64
"""The most losses that are kept of the first steps."""


class StepLosses:
    """Losses as they come to backward passes, gathered step by step."""

    def __init__(self) -> None:
        self._kept: list[torch.Tensor] = []
        self._last: torch.Tensor | None = None
        self._parts: list[torch.Tensor] = []
        """The mean loss of each backward pass in the step under way. Their sum is the step's loss."""
        self._unscaled: ByIdentity[torch.Tensor] = ByIdentity()
        """The losses before fp16's scaling, which keeps small gradients from vanishing, by what the scaling gave."""
        self._scaler: Any = None
        """The GradScaler that scaled losses in the step under way; None if none did."""
        self._scaled = 0.0
        """The number of losses that it scaled in this step and that have not come to a backward pass by themselves."""
        self._look = looking(self._mean)
        self._look_at_scaled = looking(self._note_scaled)

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

    def scaled(self, results: Any, scaler: Any, outputs: Any) -> None:
        """Note what a GradScaler made of losses. A program may scale several, and go back through one after another."""
        self._look_at_scaled(results, scaler, outputs)

    def _note_scaled(self, results: Any, scaler: Any, outputs: Any) -> None:
        self._scaler = scaler
        pairs = list(zip(_tensors(results), _tensors(outputs), strict=False))
        self._unscaled.update((result, output.detach()) for result, output in pairs)
        self._scaled += len(pairs) or math.inf  # of an iterator's losses nothing is known before they come

    def add(self, loss: Any) -> None:
        """Add the loss of a backward pass to the step under way: a tensor, or a nest of them; of each its mean.

        It is copied: the memory of a loss that a CUDA graph gives is used again by the graph's next run.
        """
        found = self._look(loss)
        self._parts.append(torch.zeros(()) if found is None else found)

    def _mean(self, loss: Any) -> torch.Tensor | None:
        if isinstance(loss, torch.Tensor) and loss.numel():
            return self._mean_of(loss)
        means = [found for one in _tensors(loss) if (found := self._mean_of(one)) is not None]
        return _sum(means) if means else None

    def _mean_of(self, one: torch.Tensor) -> torch.Tensor | None:
        """Return the mean of a tensor as it was before it was scaled; None of one that holds no numbers to read.

        A program may compute something from what was scaled, as its part of several micro-batches. It did if a scaled
        loss has not come to a pass by itself; where each has, another one was never scaled.
        """
        if self._scaler is None and not self._unscaled:
            return mean(one)
        unscaled = self._unscaled.get(one)
        if unscaled is not None:
            self._scaled -= 1
            return mean(unscaled)
        scale = getattr(self._scaler, "_scale", None)  # None of one that is disabled
        found = mean(one)
        if not self._scaled or scale is None or found is None:
            return found
        self._scaled -= 1
        return found / scale.to(found.device, non_blocking=True)

    def forget(self) -> None:
        """Drop what was added to the step under way."""
        self._parts = []

    def step_ended(self) -> torch.device:
        """Put the losses of the step together, at least one, and return the device that they lie on."""
        self._last = _sum(self._parts)
        self._kept += [self._last] * (len(self._kept) < KEPT)
        self._parts, self._scaler, self._scaled = [], None, 0
        return self._last.device


def mean(values: torch.Tensor) -> torch.Tensor | None:
    """Return the mean of a tensor in single precision at least, as a copy; None of one that holds no numbers to read.

    What goes back may be the activations of half a model, of which no copy is made. On the host PyTorch would make one
    in single precision, so it is done there part by part.
    """
    values = values.detach()
    if values.layout is not torch.strided or values.is_nested:
        return None
    values = values.real if values.is_complex() else values
    kind = torch.promote_types(values.dtype, torch.float32)
    if values.numel() == 1:
        return values.clone() if values.dtype is kind else values.to(kind)
    if values.device.type == "cpu" and values.is_contiguous() and values.numel() > PART:
        return torch.stack([part.sum(dtype=kind) for part in values.view(-1).split(PART)]).sum() / values.numel()
    return values.mean(dtype=kind)


def _sum(losses: list[torch.Tensor]) -> torch.Tensor:
    """Return the sum of single numbers. They may lie on several devices; it lies on the last one that is no CPU."""
    if len(losses) == 1:
        return losses[0]
    device = next((one.device for one in reversed(losses) if one.device.type != "cpu"), losses[-1].device)
    first, *others = [one.to(device) for one in losses]
    return sum(others, first)


def _tensors(nest: Any) -> list[torch.Tensor]:
    """Return the tensors in a nest of sequences that hold numbers."""
    if isinstance(nest, torch.Tensor):
        return [nest] * (nest.numel() > 0)
    return [one for part in nest for one in _tensors(part)] if isinstance(nest, list | tuple) else []
