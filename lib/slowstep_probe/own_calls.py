"""Modules of a class that answers calls by itself, and never comes to the hooks of torch.nn.Module.

Such a class has a `__call__` of its own, which calls `forward` and whatever else a pass is made of; those of gpytorch
do. What its parts do would be taken for passes of the model, and the time between them for nobody's.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

import torch

from slowstep_probe.patches import Patches

TORCH = os.path.join(os.path.dirname(torch.__file__), "")
CALL = "__call__"


class OwnCalls:
    """Notices calls of such modules: `called(original, module, *args, **kwargs)` stands in for their `__call__`.

    A class is met where the first module of it is made. It carries a function in place of its own until the end.
    """

    def __init__(self, called: Callable[..., Any]):
        self._called = called
        self._met: set[type] = set()
        """The classes that were looked at."""
        self._replaced: set[type] = set()
        self._patches = Patches()

    def attach(self) -> None:
        """Begin."""
        self._patches.look(torch.nn.Module, "__init__", self._made)

    def remove(self) -> None:
        """End, and give classes back what they had."""
        self._patches.remove()

    def _made(self, _: Any, module: torch.nn.Module, *__: Any, **___: Any) -> None:
        kind = type(module)
        if kind in self._met:
            return
        self._met.add(kind)
        if (owner := answers_by_itself(kind)) is not None and owner not in self._replaced:
            self._replaced.add(owner)
            self._patches.around(owner, CALL, self._called)


def answers_by_itself(kind: type) -> type | None:
    """Return the class whose `__call__` answers calls of modules of a class without PyTorch's; None if that has a part.

    A `__call__` that names another one hands the call on to what its class extends. Classes of PyTorch's own, as those
    of compiled or traced modules, come to PyTorch's in ways of theirs.
    """
    owner = None
    for each in kind.__mro__:
        call = vars(each).get(CALL)
        if call is None:
            continue
        code = getattr(inspect.unwrap(call), "__code__", None)
        if each is torch.nn.Module or code is None or code.co_filename.startswith(TORCH):
            return None
        owner = owner or each
        if CALL not in code.co_names:
            return owner
    return None


@functools.lru_cache(maxsize=1024)
def takes_hooks(kind: type) -> bool:
    """Return whether calls of modules of a class come to the hooks that stand on them, and to what is compiled."""
    return answers_by_itself(kind) is None
