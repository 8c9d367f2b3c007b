"""Changes without a probe: a program trains for real, with what was found."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from slowstep_probe.changing.interceptors import Interceptors
from slowstep_probe.changing.wanted import Made
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches
from slowstep_probe.ranks.launchers import Launchers
from slowstep_probe.ranks.rank import Rank
from slowstep_probe.trial import heap


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
    settled: list[torch.nn.Module] = []

    def first_forward(module: torch.nn.Module, _: object) -> None:
        inside = any(module is part for one in settled for part in one.modules())
        if not inside and torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters()):
            settled.append(module)
            interceptors.flags.set()  # the program may have set them itself
            interceptors.settle([module])

    met = register_module_forward_pre_hook(first_forward)
    stepped = register_optimizer_step_post_hook(lambda *_: met.remove())  # all models are known then
    try:
        yield interceptors.wanted.made
    finally:
        met.remove()
        stepped.remove()
        late.remove()
        patches.remove()
