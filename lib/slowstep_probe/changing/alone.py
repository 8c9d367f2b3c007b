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
    settled: WeakSet[torch.nn.Module] = WeakSet()
    taken: WeakKeyDictionary[torch.optim.Optimizer, int] = WeakKeyDictionary()
    """The steps that each optimizer has taken."""

    def begins(*_: object) -> bool:
        for module in outermost.modules:  # a compiled function may call several
            if module not in settled and _can_be_changed(module):
                settled.update(module.modules())
                interceptors.flags.set()  # the program may have set them itself
                with torch.inference_mode(False):  # an evaluation may come first, and training needs other tensors
                    interceptors.settle([module])
        return True

    def ends() -> None:
        if not outermost.is_open:
            outermost.seek()

    outermost = Outermost(begins, ends, is_inside=lambda: outermost.is_open, steps=math.inf)
    outermost.attach()
    # a compiled function that goes on to a backward pass makes a forward pass, whatever it returns
    patches.look(torch.autograd, "backward", lambda *_, **__: outermost.goes_on())
    # another model may come with another optimizer, or be trained first when that takes its first step
    patches.look(torch.optim.Optimizer, "__init__", lambda *_, **__: outermost.seek_anew())

    def after_a_step(optimizer: torch.optim.Optimizer, *_: object) -> None:
        taken[optimizer] = number = taken.get(optimizer, 0) + 1
        if number == 1:
            outermost.seek_anew()
        elif number < SOUGHT:
            outermost.step_ended()
        elif number == SOUGHT:
            outermost.rest()

    stepped = register_optimizer_step_post_hook(after_a_step)
    try:
        yield interceptors.wanted.made
    finally:
        outermost.remove()
        stepped.remove()
        late.remove()
        patches.remove()


def _can_be_changed(module: torch.nn.Module) -> bool:
    """Return whether a module has weights to train, all of which have a size by now."""
    weights = list(module.parameters())
    return any(one.requires_grad for one in weights) and len(with_size(weights)) == len(weights)
