"""A model in double precision that computes in single precision instead, while its program sees what it saw before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from slowstep_probe.hooks import Hook


def is_double(model: torch.nn.Module) -> bool:
    """Return whether a model trains weights of 64 bits."""
    return any(part.dtype is torch.float64 and part.requires_grad for part in model.parameters())


def to_single(model: torch.nn.Module, optimizers: Iterable[torch.optim.Optimizer]) -> None:
    """Let a model compute in single precision from its next pass on, and optimizers keep as much of what they know.

    What it is called with comes from a program that computes in double precision, and what it returns goes back to
    one: both are cast on the way. So its loss is computed as before. A pass that has begun ends as it began.
    """
    began = False

    def called_with(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        nonlocal began
        if not began:
            began = True
            model._apply(_single)
            for optimizer in optimizers:
                _states_to_single(optimizer)
        return tree_map(_single, args), tree_map(_single, kwargs)

    model.register_forward_pre_hook(Hook(called_with), with_kwargs=True)
    model.register_forward_hook(Hook(lambda _, args, output: tree_map(_double, output) if began else output))


def _states_to_single(optimizer: torch.optim.Optimizer) -> None:
    for weight, state in optimizer.state.items():
        if isinstance(weight, torch.Tensor) and weight.dtype is torch.float32:
            state.update({name: _single(value) for name, value in state.items()})


def _single(value: Any) -> Any:
    return value.to(torch.float32) if isinstance(value, torch.Tensor) and value.dtype is torch.float64 else value


def _double(value: Any) -> Any:
    return value.to(torch.float64) if isinstance(value, torch.Tensor) and value.dtype is torch.float32 else value
