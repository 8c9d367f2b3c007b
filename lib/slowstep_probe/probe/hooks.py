"""Hooks on a module that vanish from what is saved of it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch


class Hook:
    """A hook of the kit. Copies of the model share it (an average of the weights that is evaluated, say).

    A model that is saved whole gets a hook that does nothing, and that can be read where the kit is not installed.
    """

    def __init__(self, act: Callable[..., Any]):
        self._act = act

    def __call__(self, *args: Any) -> Any:
        return self._act(*args)

    def __deepcopy__(self, memo: dict[int, Any]) -> Hook:
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # an audit event that nobody looks for: a function of the standard library that takes anything and does nothing
        return functools.partial, (sys.audit, "a hook that was not saved")


class WatchingHook(Hook):
    """A hook that changes nothing, and is no part of what torch.compile makes a graph of."""

    def __call__(self, *args: Any) -> Any:
        return None if torch.compiler.is_compiling() else super().__call__(*args)
