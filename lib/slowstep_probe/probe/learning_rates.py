"""The learning rates of the first optimizer steps, relative to those that were set. Nothing is read from a device."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import torch

from slowstep_probe.by_identity import ByIdentity
from slowstep_probe.looks import looking
from slowstep_probe.probe.step_losses import KEPT


class LearningRates:
    """Learning rates as optimizers step, gathered step by step.

    A rate is relative to the one that the optimizer's group was made with, which schedules know as `initial_lr`. The
    largest of all groups and optimizers of a step counts. A step that tells no rate counts as one at the full rate.
    """

    def __init__(self) -> None:
        self.first: list[float] = []
        """The learning rates of the first steps, at most as many as there are losses."""
        self._now: float | None = None
        """The learning rate of the step under way; None before an optimizer has stepped in it."""
        self._look, self._rates = looking(_relative), looking(_rates)
        self._made: ByIdentity[list[Any]] = ByIdentity()
        """The rates of the groups of an optimizer when it was made."""

    def made(self, optimizer: Any) -> None:
        """Note the rates of an optimizer that was made."""
        self._made[optimizer] = self._rates(optimizer) or []

    def used(self, optimizer: Any) -> None:
        """Note that an optimizer has stepped."""
        if len(self.first) < KEPT:
            rate = self._look(optimizer, self._made.get(optimizer) or [])
            self._now = max(self._now or 0.0, 1.0 if rate is None else rate)

    def unused(self) -> None:
        """Note that gradients were dropped which no optimizer has used."""
        self._now = self._now or 0.0

    def step_ended(self) -> None:
        """End the step under way."""
        self.first += [1.0 if self._now is None else self._now] * (len(self.first) < KEPT)
        self._now = None

    def goes_on(self) -> None:
        """Let another optimizer that has stepped belong to the step that has ended."""
        if self._now is not None and 0 < len(self.first) < KEPT:
            self.first[-1] = max(self.first[-1], self._now)
        self._now = None


def _relative(optimizer: Any, made: Sequence[Any]) -> float | None:
    """Return the largest learning rate of an optimizer's groups; None where none tells it without asking a device.

    `made` holds the rates that its first groups were made with. The optimizer's default may be that of no group.
    """
    rates = []
    for group, own in zip_longest(optimizer.param_groups, made[: len(optimizer.param_groups)]):
        rate, whole = group.get("lr"), group.get("initial_lr", own)
        if _is_on_host(rate) and _is_on_host(whole) and whole:
            rates.append(float(rate) / float(whole))
    return max(rates, default=None)


def _rates(optimizer: Any) -> list[Any]:
    return [group.get("lr") for group in optimizer.param_groups]


def _is_on_host(number: Any) -> bool:
    return number.device.type == "cpu" if isinstance(number, torch.Tensor) else number is not None
