"""Changes without a probe: a program trains for real, with what was found."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from slowstep_probe.changing.configurations import Configurations
from slowstep_probe.changing.flags import Flags
from slowstep_probe.changing.loaders import LoaderArguments
from slowstep_probe.changing.models import ModelChanges
from slowstep_probe.changing.optimizers import OptimizerArguments
from slowstep_probe.changing.wanted import Made, Wanted
from slowstep_probe.late_imports import LateImports
from slowstep_probe.launchers import run_here
from slowstep_probe.patches import Patches
from slowstep_probe.places import CodePlace, Places
from slowstep_probe.trial import heap


@contextmanager
def changed(
    program: str, values: Mapping[str, Any], feeding: Collection[str], freed_memory: str
) -> Iterator[list[Made]]:
    """Make changes while the block runs, and give the list of those that were made so far.

    `feeding` holds `file:line` of each place where a loader is made that feeds training.
    """
    wanted = Wanted(values, Places(program))
    patches, late = Patches(), LateImports()
    configurations, models, flags = Configurations(wanted, {}), ModelChanges(wanted), Flags(wanted)
    heap.settle(freed_memory)
    flags.set()
    models.attach(patches)
    run_here(late)
    configurations.attach(patches, late)

    def feeds(place: CodePlace) -> bool:
        by_trainer = configurations.trainer is not None  # whose loaders have the arguments' values
        return not by_trainer and (not feeding or f"{place.file}:{place.line}" in feeding)

    LoaderArguments(wanted, feeds).attach(patches)
    OptimizerArguments(wanted).attach(patches)

    settled: list[torch.nn.Module] = []

    def first_forward(module: torch.nn.Module, _: object) -> None:
        inside = any(module is part for one in settled for part in one.modules())
        if not inside and torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters()):
            settled.append(module)
            flags.set()  # the program may have set them itself
            models.settle([module], by_trainer=configurations.trainer is not None)

    met = register_module_forward_pre_hook(first_forward)
    stepped = register_optimizer_step_post_hook(lambda *_: met.remove())  # all models are known then
    try:
        yield wanted.made
    finally:
        met.remove()
        stepped.remove()
        late.remove()
        patches.remove()
