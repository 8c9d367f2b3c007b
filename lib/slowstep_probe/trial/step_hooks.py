"""Hooks of the program's own on its optimizers. They run within a step, and are no part of the update."""

from __future__ import annotations

import functools
import inspect
from types import CodeType
from typing import Any

import torch
import torch.optim.optimizer as optimizers

from slowstep_probe.patches import Patches
from slowstep_probe.places import is_own


class StepHooks:
    """The functions that the program has registered to run before or after an optimizer's step."""

    def __init__(self) -> None:
        self.codes: dict[int, CodeType] = {}
        """Their code, by its `id`. It is kept, so that no other code has the same."""

    def attach(self, patches: Patches) -> None:
        """Begin to note them, for one optimizer or for all."""
        for owner, name in (
            (torch.optim.Optimizer, "register_step_pre_hook"),
            (torch.optim.Optimizer, "register_step_post_hook"),
            (optimizers, "register_optimizer_step_pre_hook"),
            (optimizers, "register_optimizer_step_post_hook"),
        ):
            patches.look(owner, name, self._registered)

    def _registered(self, _: Any, *given: Any, **named: Any) -> None:
        code = _code_of(named.get("hook", given[-1] if given else None))
        if code is not None and is_own(code.co_filename):
            self.codes[id(code)] = code


def _code_of(hook: Any) -> CodeType | None:
    """Return the code of a hook: a function, a method, or what a partial one or an object that is called runs."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    function = hook if hasattr(hook, "__code__") or hasattr(hook, "__wrapped__") else type(hook).__call__
    return getattr(inspect.unwrap(function), "__code__", None)
