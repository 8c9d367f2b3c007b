"""Changes without a probe: a program trains for real, with what was found."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from slowstep_probe import heap
from slowstep_probe.changing.interceptors import Interceptors
from slowstep_probe.changing.wanted import Made
from slowstep_probe.late_imports import LateImports
from slowstep_probe.looks import with_size
from slowstep_probe.patches import Patches
from slowstep_probe.probe.outermost import Outermost
from slowstep_probe.ranks.launchers import Launchers
from slowstep_probe.ranks.rank import Rank

SOUGHT = 8
"""The first steps of each optimizer in which models are sought. Some are first called after that of another one."""


@contextmanager
def changed(
    values: Mapping[str, Any],
    feeding: Collection[str],
    freed_memory: str,
    micro_batches: int = 0,
    own: Rank | None = None,
    launcher: str = "",
) -> Iterator[list[Made]]:
    """Make changes while the block runs, and give the list of those that were made so far.

    `feeding` holds `file:line` of each place where a loader is made that feeds training, and `micro_batches` are the
    backward passes of an optimizer step. `own` is the rank of this process, if it is one of several, and `launcher` how
    its program starts them.
    """
    interceptors = Interceptors(values, feeding, {}, micro_batches)
    patches, late = Patches(), LateImports()
    heap.settle(freed_memory)
    interceptors.attach(patches, late)
    Launchers(own, launcher).attach(patches, late)
    _Models(interceptors).attach(patches)
    try:
        yield interceptors.wanted.made
    finally:
        late.remove()
        patches.remove()


class _Models:
    """The models that a program trains, which are changed when they are called for the first time."""

    def __init__(self, interceptors: Interceptors):
        self._interceptors = interceptors
        self._settled: WeakSet[torch.nn.Module] = WeakSet()
        self._taken: WeakKeyDictionary[torch.optim.Optimizer, int] = WeakKeyDictionary()
        """The steps that each optimizer has taken."""
        self._called = Outermost(self._begins, self._ends, is_inside=lambda: self._called.is_open, steps=math.inf)

    def attach(self, patches: Patches) -> None:
        self._called.attach()
        patches.on_removal(self._called.remove)
        # a compiled function that goes on to a backward pass makes a forward pass, whatever it returns
        patches.look(torch.autograd, "backward", lambda *_, **__: self._called.goes_on())
        # another model may come with another optimizer, or be trained first when that takes its first step
        patches.look(torch.optim.Optimizer, "__init__", lambda *_, **__: self._called.seek_anew())
        patches.on_removal(register_optimizer_step_post_hook(self._stepped).remove)

    def _begins(self, *_: object) -> bool:
        for module in self._called.modules:  # a compiled function may call several
            if module not in self._settled and _can_be_changed(module):
                self._settled.update(module.modules())
                self._interceptors.flags.set()  # the program may have set them itself
                with torch.inference_mode(False):  # an evaluation may come first, and training needs other tensors
                    self._interceptors.settle([module])
        return True

    def _ends(self) -> None:
        if not self._called.is_open:
            self._called.seek()

    def _stepped(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        self._taken[optimizer] = number = self._taken.get(optimizer, 0) + 1
        if number == 1:
            self._called.seek_anew()
        elif number < SOUGHT:
            self._called.step_ended()
        elif number == SOUGHT:
            self._called.rest()


def _can_be_changed(module: torch.nn.Module) -> bool:
    """Return whether a module has weights to train, all of which have a size by now."""
    weights = list(module.parameters())
    return any(one.requires_grad for one in weights) and len(with_size(weights)) == len(weights)
