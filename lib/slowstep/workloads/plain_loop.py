"""The fine-tune of the built-in workload in a plain loop, without Trainer and accelerate."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler
from transformers import Trainer

from slowstep.workloads import data
from slowstep.workloads.base import EventResult
from slowstep.workloads.finetune import FineTune
from slowstep.workloads.observed import data_facts, model_facts
from slowstep.workloads.observed.loader import period
from slowstep_probe.weights import arena


class PlainLoop(FineTune):
    """A workload with a plain loop, which obeys the training arguments that such loops have.

    They are those of the loader, the batch and its accumulation, the optimizer, 16-bit autocast, checkpointing, and
    torch.compile.
    """

    def build_trainer(self) -> None:
        a = self.arguments
        workers = a.dataloader_num_workers
        self._loader = DataLoader(
            self.examples,
            batch_size=a.per_device_train_batch_size,
            sampler=self._order(),
            collate_fn=self.collate,
            num_workers=workers,
            pin_memory=a.dataloader_pin_memory and self.device == "cuda",
            persistent_workers=a.dataloader_persistent_workers and workers > 0,
            prefetch_factor=a.dataloader_prefetch_factor if workers else None,
        )
        if isinstance(self.collate, data.Cached):
            plan = BatchSampler(self._order(), a.per_device_train_batch_size, drop_last=False)
            self.collate.fill(itertools.islice(plan, self.settings.dataset.cached_batches))
        if a.gradient_checkpointing:
            self.model.gradient_checkpointing_enable(a.gradient_checkpointing_kwargs)
        kind, keywords = Trainer.get_optimizer_cls_and_kwargs(a, self.model)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = kind(trained, **keywords | (self.settings.optimizer_kwargs or {}))
        self.run = self.model
        if a.torch_compile:
            dynamic = self.settings.model.torch_compile_dynamic
            self.run = torch.compile(self.model, mode=a.torch_compile_mode, dynamic=dynamic)
        self.autocast = torch.bfloat16 if a.bf16 else torch.float16 if a.fp16 else None

    def _order(self) -> RandomSampler:
        """Return a random order that depends on the seed alone, not on what was drawn before, such as weights."""
        seed = self.arguments.seed if self.arguments.data_seed is None else self.arguments.data_seed
        return RandomSampler(self.examples, generator=torch.Generator().manual_seed(seed))

    @property
    def loader(self) -> DataLoader:
        return self._loader

    def train(self) -> None:
        device, parts = self.arguments.device, self.arguments.gradient_accumulation_steps
        self.model.train()
        while True:
            for i, batch in enumerate(self._loader, 1):
                moved = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
                with torch.autocast(self.device, self.autocast, enabled=self.autocast is not None):
                    loss = self.run(**moved).loss / parts
                loss.backward()
                if i % parts == 0 or i == len(self._loader):
                    self.optimizer.step()
                    self.optimizer.zero_grad()

    def observe(self) -> dict[str, Any]:
        autocast = {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(self.autocast, "no")
        return {"event_period": period(self), "autocast": autocast, **data_facts(self), **model_facts(self.model)} | (
            arena.facts([self.model])
        )

    def periodic_events(self) -> dict[str, Callable[[], EventResult]]:
        return {}  # it saves nothing and evaluates nothing
