"""Optimizers whose update is the program's own, or a package's in Python; and one kernel in its place, as a limit."""

from __future__ import annotations

import functools
import inspect
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.observed import ONE_IN_ITS_PLACE, is_rule_of_its_own
from slowstep_probe.patches import Patches

OWN_RULE = "model.own_rule"

HARDLY = 1e-6
"""The learning rate in the kernel's updates. Weights stay near those that the program began with."""


class KernelInItsPlace:
    """Has weights updated by one kernel of AdamW where the program's optimizer has a rule of its own.

    Left to the rule are weights on other devices than CPUs and CUDA's, complex, sparse and sharded ones, and steps that
    call a closure more than once, since what it computes is more than the update.
    """

    def __init__(self, wanted: Wanted):
        self.wanted = wanted
        self.updated: WeakSet[torch.optim.Optimizer] = WeakSet()
        """The optimizers that it has stood in for."""
        self._call_once: WeakSet[torch.optim.Optimizer] = WeakSet()
        """The optimizers that have called a closure once in a step."""
        self._states = WeakTensorKeyDictionary()
        """By weight, the means of its gradients and of their squares, and the number of updates."""

    def attach(self, patches: Patches) -> None:
        """Begin."""
        if self.wanted.values.get(OWN_RULE) is not False:
            return
        original = torch.optim.Optimizer.profile_hook_step  # each class has its `step` put into it once
        hooked = staticmethod(lambda step: original(self._instead_of(step)))
        torch.optim.Optimizer.profile_hook_step = hooked  # type: ignore[method-assign]
        patches.on_removal(lambda: setattr(torch.optim.Optimizer, "profile_hook_step", staticmethod(original)))

    def _instead_of(self, step: Callable[..., Any]) -> Callable[..., Any]:
        if not is_rule_of_its_own(inspect.unwrap(step)):
            return step

        def stepped(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            given = [one for one in (*args, *kwargs.values()) if one is not None]
            if not given:
                return None if self._updates(optimizer) else step(optimizer)
            if len(given) > 1 or not callable(given[0]):
                return step(optimizer, *args, **kwargs)
            if optimizer not in self._call_once:
                return self._counted(step, optimizer, given[0])
            with torch.enable_grad():
                loss = given[0]()
            return loss if self._updates(optimizer) else step(optimizer, lambda: loss)

        functools.update_wrapper(stepped, step, updated=())
        del stepped.__wrapped__  # it is no wrapper of the rule, which is not called
        setattr(stepped, ONE_IN_ITS_PLACE, self)
        return stepped

    def _counted(self, step: Callable[..., Any], optimizer: Any, closure: Callable[[], Any]) -> Any:
        """Take a step by the rule, and note whether it calls its closure once."""
        calls = list[int]()

        def counting() -> Any:
            calls.append(1)
            return closure()

        result = step(optimizer, counting)
        if len(calls) == 1:
            self._call_once.add(optimizer)
        return result

    def _updates(self, optimizer: Any) -> bool:
        """Update the weights that have gradients; return whether there is a kernel for all of them."""
        weights = [w for group in optimizer.param_groups for w in group["params"] if w.grad is not None]
        if not all(map(_has_kernel, weights)):
            return False
        self._update(weights)
        if optimizer not in self.updated:
            self.updated.add(optimizer)
            self.wanted.note_once(OWN_RULE, type(optimizer).__name__, True, False)
        return True

    @torch.no_grad()
    def _update(self, weights: list[torch.Tensor]) -> None:
        alike = defaultdict[tuple[torch.device, torch.dtype], list[torch.Tensor]](list)
        for weight in weights:
            alike[weight.device, weight.dtype].append(weight)
            if weight not in self._states:
                steps = torch.zeros((), device=weight.device)
                self._states[weight] = torch.zeros_like(weight), torch.zeros_like(weight), steps
        for group in alike.values():
            means, squares, steps = map(list, zip(*(self._states[weight] for weight in group), strict=True))
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(
                group,
                [weight.grad for weight in group],
                means,
                squares,
                [],
                steps,
                lr=HARDLY,
                beta1=0.9,
                beta2=0.999,
                weight_decay=0.0,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
            )


def _has_kernel(weight: torch.Tensor) -> bool:
    plain = type(weight.data) is type(weight.grad.data) is torch.Tensor and weight.grad.layout == torch.strided
    alike = weight.is_floating_point() and weight.grad.dtype == weight.dtype
    return plain and alike and weight.device.type in ("cpu", "cuda")
