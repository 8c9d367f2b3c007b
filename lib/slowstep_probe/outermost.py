"""The modules that a program calls outermost: its models, and a loss if it is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from slowstep_probe.hooks import Hook

SOUGHT = 2
"""The steps in which modules are sought that are called outermost. Some are first called after an optimizer's step, or
in every second step."""


class Outermost:
    """Finds the modules that are called outermost in the first steps, and has hooks on those alone.

    `begins(module, args, kwargs)` and `ends()` are called around each of their passes. `is_inside` tells whether
    something runs now within which a call is not outermost.
    """

    def __init__(
        self,
        begins: Callable[[torch.nn.Module, tuple[Any, ...], dict[str, Any]], None],
        ends: Callable[[], None],
        is_inside: Callable[[], bool],
    ):
        self._begins, self._ends, self._is_inside = begins, ends, is_inside
        self.modules: list[torch.nn.Module] = []
        self._steps = 0
        """Steps so far in which modules were sought."""
        self._discovery: Any = None
        """The global hook, while it is there."""
        self._hooks: list[Any] = []

    def seek(self) -> None:
        """Begin, or go on after a pass."""
        if self._discovery is None and self._steps < SOUGHT:
            self._discovery = register_module_forward_pre_hook(self._discover)

    def step_ended(self) -> None:
        """Count a step. After `SOUGHT` of them no more modules are sought."""
        self._steps += 1
        if self._steps == SOUGHT:
            self._pause()

    def remove(self) -> None:
        """Remove all hooks."""
        self._pause()
        while self._hooks:
            self._hooks.pop().remove()

    def _pause(self) -> None:
        if self._discovery is not None:
            self._discovery.remove()
            self._discovery = None

    def _discover(self, module: torch.nn.Module, *inputs: Any) -> None:
        if self._is_inside():
            return
        self._pause()
        if all(module is not known for known in self.modules):
            self.modules.append(module)
            end = module.register_forward_hook(Hook(lambda *_: self._ends()), always_call=True)

            def begin(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                module._forward_hooks.move_to_end(end.id)  # hooks that were added since are part of the pass
                self._begins(module, args, kwargs)

            self._hooks += [end, module.register_forward_pre_hook(Hook(begin), prepend=True, with_kwargs=True)]
            self._begins(module, inputs[0] if inputs else (), {})
