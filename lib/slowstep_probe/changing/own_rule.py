"""Optimizers that update weights one by one, by a rule of their own; and one kernel in its place, as a limit."""

from __future__ import annotations

import functools
import inspect
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.graphs import any_made
from slowstep_probe.patches import Patches
from slowstep_probe.places import CodePlace, real
from slowstep_probe.trial.loops import PRODUCTS

OWN_RULE = "model.own_rule"

WITH_KERNELS = {"torch", "bitsandbytes", "torchao", "apex", "deepspeed", "accelerate", "transformer_engine"}
"""Packages whose optimizers have kernels of their own, or call those of others."""

LOOKED_AT = 3
"""The step of an optimizer that is looked at. The first one makes its states, or the second one those of a kernel."""

HARDLY = 1e-6
"""The learning rate in the kernel's updates. Weights stay near those that the program began with."""

Step = Callable[..., Any]
Closure = Callable[[], Any]


def make_steps(by: Callable[[Step], Step], patches: Patches) -> None:
    """Have `by` make the step of each class of optimizers from that of the class, if that is a rule of its own."""
    original = torch.optim.Optimizer.profile_hook_step  # it is called once for each class, with its `step`

    def hooked(step: Step) -> Any:
        return original(by(step) if _is_own(step) else step)

    torch.optim.Optimizer.profile_hook_step = staticmethod(hooked)  # type: ignore[method-assign]
    patches.on_removal(lambda: setattr(torch.optim.Optimizer, "profile_hook_step", staticmethod(original)))


def _is_own(step: Step) -> bool:
    """Return whether a step is of no package with kernels: it is the program's, or a package's in Python."""
    return (getattr(inspect.unwrap(step), "__module__", "") or "").partition(".")[0] not in WITH_KERNELS


class OneByOne:
    """Looks at one early step of each optimizer with a rule of its own: does it go over its weights one by one?

    It does if it calls at least as many operators as there are weights, none of them a product of matrices, and a
    closure once at most. No step is looked at in a program that has compiled something.
    """

    def __init__(self) -> None:
        self.seen = False
        """True if the optimizer that was looked at last does."""
        self._steps: WeakKeyDictionary[torch.optim.Optimizer, int] = WeakKeyDictionary()

    def attach(self, patches: Patches) -> None:
        """Begin."""
        make_steps(self._looking, patches)

    def _looking(self, step: Step) -> Step:
        @functools.wraps(step)
        def stepped(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self._steps[optimizer] = number = self._steps.get(optimizer, 0) + 1
            closure, known = _closure_of(args, kwargs)
            if number != LOOKED_AT or not known or any_made():
                return step(optimizer, *args, **kwargs)
            calls = _Calls()
            given = () if closure is None else (calls.left_out(closure),)
            with calls:
                result = step(optimizer, *given)
            weights = _weights_of(optimizer)
            one_by_one = 0 < len(weights) <= calls.number and all(map(_has_kernel, weights))
            self.seen = one_by_one and not calls.products and calls.closures <= 1
            return result

        return stepped


class _Calls(TorchDispatchMode):
    """Counts the operators that are called while it is entered, but for those of a closure."""

    def __init__(self) -> None:
        super().__init__()
        self.number = self.products = self.closures = 0
        self._in_closure = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self._in_closure:
            self.number += 1
            self.products += bool(PRODUCTS.search(func._schema.name))
        return func(*args, **(kwargs or {}))

    def left_out(self, closure: Closure) -> Closure:
        """Return a closure that counts itself, and none of what it calls."""

        def counted() -> Any:
            self.closures += 1
            self._in_closure = True
            try:
                return closure()
            finally:
                self._in_closure = False

        return counted


class KernelInItsPlace:
    """Has weights updated by one kernel of AdamW where the program's optimizer has a rule of its own.

    Left to the rule are weights on other devices than CPUs and CUDA's, complex, sparse and sharded ones, and steps that
    call a closure more than once, since what it computes is more than the update.
    """

    def __init__(self, wanted: Wanted):
        self.wanted = wanted
        self._call_once: WeakSet[torch.optim.Optimizer] = WeakSet()
        """The optimizers that have called a closure once in a step."""
        self._states = WeakTensorKeyDictionary()
        """By weight, the means of its gradients and of their squares, and the number of updates."""

    def attach(self, patches: Patches) -> None:
        """Begin."""
        if self.wanted.values.get(OWN_RULE) is False:
            make_steps(self._instead_of, patches)

    def _instead_of(self, step: Step) -> Step:
        @functools.wraps(step)
        def stepped(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            closure, known = _closure_of(args, kwargs)
            if not known:
                return step(optimizer, *args, **kwargs)
            if closure is None:
                return None if self._updates(optimizer, step) else step(optimizer)
            if optimizer not in self._call_once:
                return self._counted(step, optimizer, closure)
            with torch.enable_grad():
                loss = closure()
            return loss if self._updates(optimizer, step) else step(optimizer, lambda: loss)

        return stepped

    def _counted(self, step: Step, optimizer: Any, closure: Closure) -> Any:
        """Take a step by the rule, and note whether it calls its closure once."""
        calls = list[int]()

        def counting() -> Any:
            calls.append(1)
            return closure()

        result = step(optimizer, counting)
        if len(calls) == 1:
            self._call_once.add(optimizer)
        return result

    def _updates(self, optimizer: Any, step: Step) -> bool:
        """Update the weights that have gradients in place of `step`; return whether there is a kernel for all."""
        weights = _weights_of(optimizer)
        if not all(_is_alike(weight) if weight in self._states else _has_kernel(weight) for weight in weights):
            return False
        self._update(weights)
        if OWN_RULE not in {one.key for one in self.wanted.made}:
            self.wanted.note(OWN_RULE, type(optimizer).__name__, True, False, place=_place_of(step))
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
                eps=1.0,  # it bounds an update by the rate, also where squares of 16 bits become 0
                amsgrad=False,
                maximize=False,
            )


def _place_of(step: Step) -> CodePlace | None:
    """Return the place of a rule in the code, at which it would be mended; None if it has none."""
    code = getattr(inspect.unwrap(step), "__code__", None)
    return code and CodePlace(real(code.co_filename), code.co_firstlineno, function=code.co_name)


def _closure_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Closure | None, bool]:
    """Return the closure that a step is given, or None, and whether it is given nothing else."""
    given = [one for one in (*args, *kwargs.values()) if one is not None]
    if not given:
        return None, True
    return (given[0], True) if len(given) == 1 and callable(given[0]) else (None, False)


def _weights_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the weights of an optimizer that have gradients."""
    return [w for group in optimizer.param_groups for w in group["params"] if w.grad is not None]


def _has_kernel(weight: torch.Tensor) -> bool:
    """Return whether a fused kernel takes a weight with its gradient: plain ones, which lie alike and without gaps."""
    plain = type(weight.data) is torch.Tensor and weight.is_floating_point() and weight.device.type in ("cpu", "cuda")
    return plain and _is_alike(weight) and torch.empty_like(weight, device="meta").stride() == weight.stride()


def _is_alike(weight: torch.Tensor) -> bool:
    """Return whether a gradient is of the kind of its weight, and lies alike."""
    grad = weight.grad
    kind = type(grad) is torch.Tensor and grad.dtype == weight.dtype and grad.layout == weight.layout == torch.strided
    return kind and grad.stride() == weight.stride()
