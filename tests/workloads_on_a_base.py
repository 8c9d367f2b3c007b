"""Workloads that do to their frozen base what none should do, or find no room beside it.

They are imported by their trials alone.
"""

from __future__ import annotations

import torch

from slowstep.workloads.finetune import FineTune


class MergesItsAdapter(FineTune):
    """Writes to the weights that it was to leave frozen, as merging an adapter does."""

    def build_trainer(self) -> None:
        super().build_trainer()
        frozen = next(p for p in self.model.parameters() if not p.requires_grad)
        frozen.data.add_(1.0)


class ShortOfMemory(FineTune):
    """Finds no room on its device."""

    def build_trainer(self) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


class MergesItLate(MergesItsAdapter):
    """Writes to them after some steps of training."""

    written = 0

    def build_trainer(self) -> None:
        FineTune.build_trainer(self)
        self.optimizer_hook = self.trainer.model.register_forward_pre_hook(self.count)

    def count(self, *_: object) -> None:
        self.written += 1
        if self.written == 60:
            frozen = next(p for p in self.model.parameters() if not p.requires_grad)
            frozen.data.add_(1.0)
