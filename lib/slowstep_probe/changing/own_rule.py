"""Optimizers that update weights one by one, by a rule of their own; and one kernel in its place, as a limit."""

from __future__ import annotations

import functools
import inspect
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.looks import weights_of
from slowstep_probe.operator_names import PRODUCTS
from slowstep_probe.patches import Patches
from slowstep_probe.places import CodePlace, real
from slowstep_probe.probe.graphs import any_made

OWN_RULE = "model.own_rule"

WITH_KERNELS = {"torch", "bitsandbytes", "torchao", "apex", "deepspeed", "accelerate", "transformer_engine"}
"""Packages whose optimizers have kernels of their own, or call those of others."""

LOOKED_AT = 3, 6
"""The steps of an optimizer that are looked at. The first one makes its states; at the last one a kernel stands in."""

KINDS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The kinds of numbers that fused kernels take."""

FEW = 8
"""The most operators that are few for any number of weights: what goes over all of them at once calls some as well."""

HARDLY = 1e-6
"""The learning rate in the kernel's updates. Weights stay near those that the program began with."""

Step = Callable[..., Any]
StepArguments = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of a step: those by their places, and those by name."""
Closure = Callable[[], Any]


def make_steps(by: Callable[[Step, int, Any, StepArguments], Any], patches: Patches) -> None:
    """Have `by(step, number, optimizer, given)` called for each step of an optimizer whose rule is its own.

    `number` counts the optimizer's steps from 1. Steps that torch.compile makes a graph of are left alone.
    """
    original = torch.optim.Optimizer.profile_hook_step  # it is called once for each class, with its `step`
    steps: WeakKeyDictionary[torch.optim.Optimizer, int] = WeakKeyDictionary()

    def hooked(step: Step) -> Any:
        @functools.wraps(step)
        def stepped(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return step(optimizer, *args, **kwargs)
            steps[optimizer] = number = steps.get(optimizer, 0) + 1
            return by(step, number, optimizer, (args, kwargs))

        return original(stepped if _is_own(step) else step)

    torch.optim.Optimizer.profile_hook_step = staticmethod(hooked)  # type: ignore[method-assign]
    patches.on_removal(lambda: setattr(torch.optim.Optimizer, "profile_hook_step", staticmethod(original)))


def _is_own(step: Step) -> bool:
    """Return whether a step is of no package with kernels: it is the program's, or a package's in Python."""
    return (getattr(inspect.unwrap(step), "__module__", "") or "").partition(".")[0] not in WITH_KERNELS


class OneByOne:
    """Looks at early steps of each optimizer with a rule of its own: does it go over its weights one by one?

    It is attached before what stands in for a rule, so that it looks at that.
    """

    def __init__(self) -> None:
        self._found: WeakSet[torch.optim.Optimizer] = WeakSet()

    @property
    def seen(self) -> bool:
        """True if an optimizer did so when it was looked at last."""
        return bool(self._found)

    def attach(self, patches: Patches) -> None:
        make_steps(self._looking, patches)

    def _looking(self, step: Step, number: int, optimizer: Any, given: StepArguments) -> Any:
        if number not in LOOKED_AT:
            return _take(step, optimizer, given)
        result, one_by_one = looked_at(step, optimizer, given)
        (self._found.add if one_by_one else self._found.discard)(optimizer)
        return result


def _take(step: Step, optimizer: Any, given: StepArguments) -> Any:
    args, kwargs = given
    return step(optimizer, *args, **kwargs)


def looked_at(step: Step, optimizer: Any, given: StepArguments) -> tuple[Any, bool]:
    """Take a step; return what it returns, and whether it goes over the weights one by one.

    It does if it calls at least as many operators as there are weights and more than a few, none of them a product of
    matrices or a collective, no other optimizer, and a closure once at most. No step is looked at where something was
    compiled.
    """
    closure, known = _closure_of(given)
    if not known or any_made() or _inherits_a_kernel(optimizer):
        return _take(step, optimizer, given), False
    calls, others = _Calls(), list[int]()
    hook = register_optimizer_step_pre_hook(lambda *_: others.append(1))
    try:
        with calls:
            result = _take(step, optimizer, _with(given, closure, calls.left_out))
    finally:
        hook.remove()
    weights = _with_gradients(optimizer)
    one_by_one = bool(weights) and calls.number > max(FEW, len(weights) - 1) and all(map(_has_kernel, weights))
    return result, one_by_one and not calls.others and not others and calls.closures <= 1


def _inherits_a_kernel(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether an optimizer extends one of a package with kernels, whose step it may call."""
    kinds = (kind for kind in type(optimizer).__mro__ if kind is not torch.optim.Optimizer)
    return any("step" in vars(kind) and not _is_own(vars(kind)["step"]) for kind in kinds)


class _Calls(TorchDispatchMode):
    """Counts the operators that are called while it is entered, but for those of a closure."""

    def __init__(self) -> None:
        super().__init__()
        self.number = self.closures = 0
        self.others = 0
        """The products of matrices and the collectives among them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.number += 1
        name = func._schema.name
        self.others += bool(PRODUCTS.search(name)) or "c10d" in name.partition("::")[0]
        return func(*args, **(kwargs or {}))

    def left_out(self, closure: Closure) -> Closure:
        """Return a closure that counts itself, and runs as if nobody counted."""

        def counted() -> Any:
            self.closures += 1
            self.__exit__(None, None, None)
            try:
                return closure()
            finally:
                self.__enter__()

        return counted


class KernelInItsPlace:
    """Has weights updated by one kernel of AdamW where an optimizer goes over them one by one, by a rule of its own.

    Left to the rule are weights on other devices than CPUs and CUDA's, complex, sparse and sharded ones.
    """

    def __init__(self, wanted: Wanted):
        self.wanted = wanted
        self._stands_in: WeakSet[torch.optim.Optimizer] = WeakSet()
        self._states = WeakTensorKeyDictionary()
        """Each weight, with the mean of its gradients, the mean of their squares, and the number of updates so far."""

    def attach(self, patches: Patches) -> None:
        if self.wanted.values.get(OWN_RULE) is False:
            make_steps(self._instead_of, patches)

    def _instead_of(self, step: Step, number: int, optimizer: Any, given: StepArguments) -> Any:
        if number == LOOKED_AT[0]:
            result, one_by_one = looked_at(step, optimizer, given)
            if one_by_one:
                self._stands_in.add(optimizer)
            return result
        return (self._stepped if optimizer in self._stands_in else _take)(step, optimizer, given)

    def _stepped(self, step: Step, optimizer: Any, given: StepArguments) -> Any:
        """Take a step by the kernel, or by the rule where there is none for all weights."""
        closure, known = _closure_of(given)
        if not known:
            return _take(step, optimizer, given)
        if closure is None:
            return None if self._updates(optimizer, step) else _take(step, optimizer, given)
        with torch.enable_grad():
            loss = closure()
        if self._updates(optimizer, step):
            return loss
        return _take(step, optimizer, _with(given, closure, lambda _: lambda: loss))

    @torch.no_grad()
    def _updates(self, optimizer: Any, step: Step) -> bool:
        """Update the weights that have gradients in place of `step`; return whether there is a kernel for all."""
        alike = defaultdict[tuple[torch.device, torch.dtype], list[tuple[torch.Tensor, ...]]](list)
        for weight in _with_gradients(optimizer):
            if not _has_kernel(weight):
                return False
            state = self._states.get(weight)
            if state is None or not _is_alike(weight, state[0]):
                steps = torch.zeros((), device=weight.device)
                state = self._states[weight] = torch.zeros_like(weight), torch.zeros_like(weight), steps
                if state[0].stride() != weight.stride():  # it has gaps
                    return False
            alike[weight.device, weight.dtype].append((weight, weight.grad, *state))
        if not alike:
            return False
        for group in alike.values():
            weights, grads, means, squares, steps = map(list, zip(*group, strict=True))
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(
                weights,
                grads,
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
        self.wanted.note_once(OWN_RULE, type(optimizer).__name__, True, False, _place_of(step))
        return True


def _place_of(step: Step) -> CodePlace | None:
    """Return the place of a rule in the code, at which it would be mended; None if it has none."""
    code = getattr(inspect.unwrap(step), "__code__", None)
    return code and CodePlace(real(code.co_filename), code.co_firstlineno, function=code.co_name)


def _closure_of(given: StepArguments) -> tuple[Closure | None, bool]:
    """Return the closure that a step is given, or None, and whether it is given nothing else."""
    args, kwargs = given
    found = [one for one in (*args, *kwargs.values()) if one is not None]
    if not found:
        return None, True
    return (found[0], True) if len(found) == 1 and callable(found[0]) else (None, False)


def _with(given: StepArguments, closure: Closure | None, made: Callable[[Closure], Closure]) -> StepArguments:
    """Return what a step is given, by place or by name, with what is made of the closure where that stands."""
    args, kwargs = given
    if closure is None:
        return given
    other = made(closure)
    return (
        tuple(other if one is closure else one for one in args),
        {name: other if one is closure else one for name, one in kwargs.items()},
    )


def _with_gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the weights of an optimizer that have gradients."""
    return [weight for weight in weights_of(optimizer) if weight.grad is not None]


def _has_kernel(weight: torch.Tensor) -> bool:
    """Return whether a fused kernel takes a weight with its gradient: plain ones of one kind, which lie alike."""
    plain = type(weight) in (torch.Tensor, torch.nn.Parameter)
    kind = plain and weight.dtype in KINDS and weight.device.type in ("cpu", "cuda")
    return kind and type(weight.grad) is torch.Tensor and _is_alike(weight, weight.grad)


def _is_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors are of one kind, and lie alike."""
    kind = one.dtype == other.dtype and one.device == other.device and one.shape == other.shape
    return kind and one.layout == other.layout == torch.strided and one.stride() == other.stride()
