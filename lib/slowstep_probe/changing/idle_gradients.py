"""Gradients of weights that no optimizer updates: a teacher's, or those of a backbone that nobody froze."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from slowstep_probe import devices
from slowstep_probe.changing.optimizers import note_made
from slowstep_probe.looks import looking, weights_of
from slowstep_probe.patches import Patches

MATTERS = 0.01
"""The part of all weights with gradients from which on idle ones are told."""

LOOKS = 8
"""The steps of optimizers after which it is looked. Some models are known after the first of them only."""


def idle(models: Iterable[torch.nn.Module], optimizers: Iterable[torch.optim.Optimizer]) -> list[torch.nn.Parameter]:
    """Return the weights of models that have gradients, and that are in no optimizer; [] where they are too few.

    Optimizers over copies of weights tell nothing: what they have must be weights of the models.
    """
    updated = {id(weight) for one in optimizers for weight in weights_of(one)}
    every = {id(weight): weight for model in models for weight in model.parameters()}
    having = [weight for weight in every.values() if weight.requires_grad and weight.grad is not None]
    alone = [weight for weight in having if id(weight) not in updated]
    known = bool(updated) and updated <= every.keys()
    sizes = (sum(weight.numel() for weight in weights) for weights in (alone, having))
    return alone if known and next(sizes) > MATTERS * next(sizes) else []


def _sum(weight: torch.Tensor) -> torch.Tensor:
    """Return the sum of a weight's numbers, where it lies; of one that is spread over ranks that of all."""
    total = weight.detach().sum(dtype=torch.promote_types(weight.dtype, torch.float32))
    return total.full_tensor() if hasattr(total, "full_tensor") else total


class IdleGradients:
    """Looks for idle gradients after the first steps of optimizers, and has them computed no more if that is wanted.

    `models` returns the modules that are known to be called. Gradients are there when an optimizer has stepped, however
    the program drops them. What is seen of weights on a device stays there until somebody asks for it.
    """

    def __init__(self, models: Callable[[], Iterable[torch.nn.Module]], found: Callable[[], None] | None = None):
        self.models, self._found = models, found
        """What is called when some are found, after which none are asked for; None for looking alone."""
        self._optimizers: WeakSet[torch.optim.Optimizer] = WeakSet()
        self._sums: dict[int, torch.Tensor] = {}
        """The sum of each weight with idle gradients, at the last look. The program itself updates one that changes."""
        self._before: dict[int, torch.Tensor] = {}
        """The sums at the look before that."""
        self._frozen: dict[int, torch.nn.Parameter] = {}
        self._steps = 0

    def attach(self, patches: Patches) -> None:
        note_made(patches, self._optimizers)
        patches.on_removal(register_optimizer_step_post_hook(looking(self._stepped)).remove)
        if self._found is not None:
            patches.after(torch.optim.Optimizer, "add_param_group", self._added)

    @property
    def seen(self) -> bool:
        """True if there were any when it was looked last. It waits for the device, so ask it while nothing is timed."""
        return bool(self._unchanged())

    def _unchanged(self) -> set[int]:
        """Return the identities of the weights whose sums were the same at the last two looks, by one read."""
        both = [key for key in self._sums if key in self._before]
        if not both:
            return set()
        place = self._sums[both[-1]].device
        now, before = (torch.stack([of[key].to(place) for key in both]) for of in (self._sums, self._before))
        same = (now == before).cpu().tolist()
        return {key for key, one in zip(both, same, strict=True) if one}

    def _stepped(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._optimizers.add(optimizer)  # a copy of one was not made by its class
        if self._steps >= LOOKS or devices.is_capturing():
            return
        self._steps += 1
        candidates = idle(self.models(), self._optimizers)
        self._before, self._sums = self._sums, {id(weight): _sum(weight) for weight in candidates}
        if self._found is None:
            return
        unchanged = self._unchanged()  # the first steps of a trial are not timed
        if weights := [weight for weight in candidates if id(weight) in unchanged]:
            self._found()
            for weight in weights:
                weight.requires_grad_(False)
                weight.grad = None
            self._frozen |= {id(weight): weight for weight in weights}

    def _added(self, _: None, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        """Ask again for the gradients of weights that an optimizer gets later, as in gradual unfreezing."""
        for weight in weights_of(optimizer):
            if self._frozen.pop(id(weight), None) is not None:
                weight.requires_grad_(True)
