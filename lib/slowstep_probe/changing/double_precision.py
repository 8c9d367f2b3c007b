"""A model in double precision that computes in single precision instead, while its program sees what it saw before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._pytree import tree_map

from slowstep_probe.changing.optimizers import states_of
from slowstep_probe.looks import with_size
from slowstep_probe.probe.hooks import Hook


def is_double(model: torch.nn.Module) -> bool:
    """Return whether most of the numbers that a model trains have 64 bits. A single one may, by accident."""
    trained = [part for part in with_size(model.parameters()) if part.requires_grad]
    sizes = [(part.numel(), part.dtype is torch.float64) for part in trained]
    return 2 * sum(size for size, double in sizes if double) > sum(size for size, _ in sizes)


def to_single(model: torch.nn.Module, optimizers: Iterable[torch.optim.Optimizer]) -> None:
    """Let a model compute in single precision after an optimizer's next step, and optimizers keep as much.

    What it is called with comes from a program that computes in double precision, and what it returns goes back to
    one: both are cast on the way. So its loss is computed as before. The passes of a step that has begun end as they
    began, since its backward pass is to come.
    """
    stepped = began = False

    def after_a_step(*_: Any) -> None:
        nonlocal stepped
        stepped = True

    def called_with(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        nonlocal began
        if not began and stepped and not torch.is_inference_mode_enabled():
            began = True
            hook.remove()  # not within itself: PyTorch goes over its hooks while it calls them
            model._apply(_single)
            for optimizer in optimizers:
                _states_to_single(optimizer)
        return (tree_map(_single, args), tree_map(_single, kwargs)) if began else (args, kwargs)

    hook = register_optimizer_step_post_hook(after_a_step)
    model.register_forward_pre_hook(Hook(called_with), with_kwargs=True)
    model.register_forward_hook(Hook(lambda _, args, output: tree_map(_double, output) if began else output))


def _states_to_single(optimizer: torch.optim.Optimizer) -> None:
    for weight, state in states_of(optimizer):
        if isinstance(weight, torch.Tensor) and weight.dtype is torch.float32:
            state.update({name: tree_map(_single, value) for name, value in state.items()})


def _single(value: Any) -> Any:
    return value.to(torch.float32) if isinstance(value, torch.Tensor) and value.dtype is torch.float64 else value


def _double(value: Any) -> Any:
    return value.to(torch.float64) if isinstance(value, torch.Tensor) and value.dtype is torch.float32 else value
