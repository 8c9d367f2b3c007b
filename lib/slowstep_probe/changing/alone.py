"""Changes without a probe: a program trains for real, with what was found."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from slowstep_probe import heap
from slowstep_probe.changing.interceptors import Interceptors
from slowstep_probe.changing.wanted import Made
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches
from slowstep_probe.probe.outermost import Outermost
from slowstep_probe.ranks.launchers import Launchers
from slowstep_probe.ranks.rank import Rank

SOUGHT = 8
"""The steps of optimizers in which models are sought. Some are first called after the optimizer of another one."""


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
    depth = 0
    """The passes that are under way."""

    def begins(*_: object) -> bool:
        nonlocal depth
        depth += 1
        for module in outermost.modules:  # a compiled function may call several
            if module not in settled and any(p.requires_grad for p in module.parameters()):
                settled.update(module.modules())
                interceptors.flags.set()  # the program may have set them itself
                interceptors.settle([module])
        return True

    def ends() -> None:
        nonlocal depth
        depth -= 1
        if depth == 0:
            outermost.seek()

    outermost = Outermost(begins, ends, is_inside=lambda: depth > 0 or not torch.is_grad_enabled(), steps=SOUGHT)
    outermost.attach()
    # a compiled function that goes on to a backward pass makes a forward pass, whatever it returns
    patches.look(torch.autograd, "backward", lambda *_, **__: outermost.goes_on())
    steps = itertools.count(1)

    def after_a_step(*_: object) -> None:
        number = next(steps)
        if number < SOUGHT:
            outermost.step_ended()
        elif number == SOUGHT:
            outermost.remove()  # all models are known then

    stepped = register_optimizer_step_post_hook(after_a_step)
    try:
        yield interceptors.wanted.made
    finally:
        outermost.remove()
        stepped.remove()
        late.remove()
        patches.remove()
