"""Modules of a class that answers calls by itself, and never comes to the hooks of torch.nn.Module.

Such a class has a `__call__` of its own, which calls `forward` and whatever else a pass is made of; those of gpytorch
do. What its parts do would be taken for passes of the model, and the time between them for nobody's.
"""

from __future__ import annotations

import inspect
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch

from slowstep_probe.patches import Patches
from slowstep_probe.probe.graphs import COMPILED

TORCH = os.path.join(os.path.dirname(torch.__file__), "")
CALL = "__call__"
HANDS_ON = {CALL, "_call_impl", "_wrapped_call_impl"}


class OwnCalls:
    """Notices calls of such modules: `called(original, module, *args, **kwargs)` stands in for their `__call__`.

    A class is met where the first module of it is made. It carries a function in place of its own until the end, if it
    is found by its name: others are pickled with all that stands on them.
    """

    def __init__(self, called: Callable[..., Any]):
        self._called = called
        self._met: weakref.WeakSet[type] = weakref.WeakSet()
        """The classes that were looked at."""
        self._replaced: weakref.WeakSet[type] = weakref.WeakSet()
        self._patches = Patches()

    def attach(self) -> None:
        self._patches.look(torch.nn.Module, "__init__", self._made)

    def remove(self) -> None:
        """End, and give classes back what they had."""
        self._patches.remove()

    def _made(self, _: Any, module: torch.nn.Module, /, *__: Any, **___: Any) -> None:
        kind = type(module)
        if kind in self._met:
            return
        self._met.add(kind)
        owner = answers_by_itself(kind)
        if owner is not None and owner not in self._replaced and _is_found_by_name(owner):
            self._replaced.add(owner)
            self._patches.around(owner, CALL, self._called)


def answers_by_itself(kind: type) -> type | None:
    """Return the class whose `__call__` answers calls of modules of a class without PyTorch's; None if that has a part.

    A `__call__` that names another one, or what PyTorch's own calls, hands the call on to what its class extends.
    Classes of PyTorch's own, as those of compiled or traced modules, come to PyTorch's in ways of theirs, and so does a
    `__call__` that is compiled or no plain function. One of a class that is no module's is not a module's alone.
    """
    owner = None
    for each in kind.__mro__:
        call = vars(each).get(CALL)
        if call is None:
            continue
        plain = inspect.isfunction(call) and not hasattr(call, COMPILED) and issubclass(each, torch.nn.Module)
        code = inspect.unwrap(call).__code__ if plain else None
        if each is torch.nn.Module or code is None or code.co_filename.startswith(TORCH):
            return None
        owner = owner or each
        if HANDS_ON.isdisjoint(_names(code)):
            return owner
    return None


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that a function uses, and those of the functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_found_by_name(kind: type) -> bool:
    """Return whether a class is an attribute of the module that it names, which is not the program itself."""
    module = sys.modules.get(kind.__module__)
    return kind.__module__ != "__main__" and getattr(module, kind.__qualname__, None) is kind


def takes_hooks(kind: type) -> bool:
    """Return whether calls of modules of a class come to the hooks that stand on them, and to what is compiled."""
    return answers_by_itself(kind) is None
