"""The learning rates of the first optimizer steps, relative to the full ones. Nothing is read from a device."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import torch

from slowstep_probe.by_identity import ByIdentity
from slowstep_probe.looks import looking
from slowstep_probe.probe.step_losses import KEPT

ROUNDING = 1e-6
"""The part of a rate by which another one may differ that is the same."""


class LearningRates:
    """Learning rates as optimizers step, gathered step by step.

    A rate is relative to the one that the optimizer's group was made with, which schedules know as `initial_lr`. The
    largest of all groups and optimizers of a step counts. A step that tells no rate counts as one at the full rate.
    """

    def __init__(self) -> None:
        self._seen: list[float] = []
        """The learning rates of the first steps, relative to those that the groups were made with."""
        self._scheduled = False
        """True if a schedule knows the rate that a group was made with."""
        self._now: float | None = None
        """The learning rate of the step under way; None before an optimizer has stepped in it."""
        self._look, self._rates, self._has_schedule = looking(_relative), looking(_rates), looking(_has_schedule)
        self._made: ByIdentity[list[Any]] = ByIdentity()
        """The rates of the groups of an optimizer when it was made."""

    @property
    def first(self) -> list[float]:
        """The learning rates of the first steps, at most as many as there are losses."""
        return relative_to_full(self._seen, self._scheduled)

    def made(self, optimizer: Any) -> None:
        """Note the rates of an optimizer that was made."""
        self._made[optimizer] = self._rates(optimizer) or []

    def used(self, optimizer: Any) -> None:
        """Note that an optimizer has stepped."""
        if len(self._seen) < KEPT:
            self._scheduled = self._scheduled or bool(self._has_schedule(optimizer))
            rate = self._look(optimizer, self._made.get(optimizer) or [])
            self._now = max(self._now or 0.0, 1.0 if rate is None else rate)

    def unused(self) -> None:
        """Note that gradients were dropped which no optimizer has used."""
        self._now = self._now or 0.0

    def step_ended(self) -> None:
        """End the step under way."""
        self._seen += [1.0 if self._now is None else self._now] * (len(self._seen) < KEPT)
        self._now = None

    def goes_on(self) -> None:
        """Let another optimizer that has stepped belong to the step that has ended."""
        if self._now is not None and 0 < len(self._seen) < KEPT:
            self._seen[-1] = max(self._seen[-1], self._now)
        self._now = None


def relative_to_full(rates: Sequence[float], scheduled: bool) -> list[float]:
    """Return learning rates relative to the full one; `rates` are relative to the one that a group was made with.

    That is the full one, unless the largest rate lies below it and they rise no longer. Then no warm-up is under way:
    the program sets rates of its own, and the largest is the full one. A rate that a schedule holds still may be the
    first stage of a warm-up that rises from epoch to epoch.
    """
    third, largest = len(rates) // 3, max(rates, default=0.0)
    if not third or not 0 < largest < 1:
        return list(rates)
    rise = max(rates[-third:]) > (1 + ROUNDING) * max(rates[:-third])
    stand_still = largest <= (1 + ROUNDING) * min(filter(None, rates))
    return list(rates) if rise or (stand_still and scheduled) else [rate / largest for rate in rates]


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


def _has_schedule(optimizer: Any) -> bool:
    return any("initial_lr" in group for group in optimizer.param_groups)


def _is_on_host(number: Any) -> bool:
    return number.device.type == "cpu" if isinstance(number, torch.Tensor) else number is not None
