"""The changes that are made where a program makes its objects, in a trial and when it runs for real alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from slowstep_probe.changing.configurations import Configurations
from slowstep_probe.changing.data_parallel import DataParallel
from slowstep_probe.changing.flags import Flags
from slowstep_probe.changing.loaders import LoaderArguments
from slowstep_probe.changing.models import ModelChanges
from slowstep_probe.changing.optimizers import OptimizerArguments
from slowstep_probe.changing.own_rule import KernelInItsPlace
from slowstep_probe.changing.padding import TrimPadding
from slowstep_probe.changing.sharding import Sharding
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.changing.zero import Zero
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches
from slowstep_probe.places import CodePlace


class Interceptors:
    """All of them, for the wanted `values` by canonical key.

    `feeding` holds `file:line` of each place where a loader is made that feeds training; without any, all loaders are
    taken to. `fields` are set in all TrainingArguments besides. `micro_batches` are the backward passes of an optimizer
    step, if that is known.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        feeding: Collection[str],
        fields: Mapping[str, Any],
        micro_batches: int,
    ):
        self.wanted, self.feeding = Wanted(values), frozenset(feeding)
        self.configurations = Configurations(self.wanted, fields)
        self.data_parallel = DataParallel(self.wanted, micro_batches)
        self.sharding = Sharding(self.wanted)
        self.flags, self.models = Flags(self.wanted), ModelChanges(self.wanted)

    @property
    def by_trainer(self) -> bool:
        """True if the program trains by transformers' Trainer, which acts on its arguments itself."""
        return self.configurations.trainer is not None

    def attach(self, patches: Patches, late: LateImports) -> None:
        self.flags.attach(patches)
        self.models.attach(patches)
        self.configurations.attach(patches, late)
        self.data_parallel.attach(patches, late)
        self.sharding.attach(patches, late)
        Zero(self.wanted).attach(patches, late)
        LoaderArguments(self.wanted, lambda place: not self.by_trainer and self._feeds(place)).attach(patches)
        TrimPadding(self.wanted, self._feeds).attach(patches)
        OptimizerArguments(self.wanted).attach(patches)
        KernelInItsPlace(self.wanted).attach(patches)

    def settle(self, models: Sequence[torch.nn.Module]) -> list[str]:
        """Change models that are known now; return why those changes were not made that have no place in them."""
        refused = self.models.settle(models, self.by_trainer)
        self.sharding.settle(models)
        return refused

    def _feeds(self, place: CodePlace) -> bool:
        return not self.feeding or str(place) in self.feeding
