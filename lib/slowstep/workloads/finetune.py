"""The built-in workload: a causal language model fine-tuned by transformers' Trainer."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import DataLoader, Subset
from transformers import PrinterCallback, Trainer, TrainingArguments, set_seed

from slowstep.settings import Settings
from slowstep.settings.library_arguments import REPORTERS
from slowstep.settings.periodic_events import EVENTS, is_rare, schedule_looks
from slowstep.workloads import data, data_check, model
from slowstep.workloads.base import EventResult, NotTestable
from slowstep.workloads.observed import trainer_facts
from slowstep_probe.trial.program_hooks import hooks
from slowstep_probe.weights import arena
from slowstep_probe.weights.built_once import adopt

ENDLESS = 10**9

SDPA = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


def accelerator_available() -> bool:
    """Return whether PyTorch has a device other than the processor."""
    return torch.cuda.is_available() or torch.backends.mps.is_available()


def training_arguments(settings: Settings, folder: Path) -> TrainingArguments:
    """Return the run's TrainingArguments for a trial: without end or rare periodic events, writing to `folder`."""
    # without a device Trainer wants to be told so, or it refuses bf16
    given = {"use_cpu": not accelerator_available()} | settings.training_arguments
    given["report_to"] = _reporters(settings, folder)
    for event, name in EVENTS.items():
        given[f"{name}_strategy"] = "no" if is_rare(settings.run, event) else settings.training(f"{name}_strategy")
    if schedule_looks(settings.run) and is_rare(settings.run, "evaluate"):
        given["lr_scheduler_type"] = "constant"  # Trainer refuses a schedule that has nothing to look at
    given |= {"load_best_model_at_end": False, "push_to_hub": False, "warmup_steps": _warmup_steps(settings)}
    if settings.model.torch_compile_dynamic is not None:  # accelerate takes it from here alone
        os.environ["ACCELERATE_DYNAMO_USE_DYNAMIC"] = str(settings.model.torch_compile_dynamic)
    return TrainingArguments(
        **given
        | {"output_dir": str(folder), "max_steps": ENDLESS, "disable_tqdm": True, "remove_unused_columns": False}
    )


def _warmup_steps(settings: Settings) -> float:
    """Return the warm-up steps of the job. A share of an endless trial's steps would keep its learning rate at 0."""
    given, job = float(settings.training("warmup_steps") or 0), settings.job
    if given >= 1:
        return given
    return float(round(given * (job.epochs or 0) * (job.samples or 0) / settings.effective_batch_size))


def _reporters(settings: Settings, folder: Path) -> list[str]:
    """Return the installed experiment trackers of the run. They are told to write to `folder` and to call no one."""
    given = settings.training("report_to")
    wanted = list(REPORTERS) if given in ("all", ["all"]) else [given] if isinstance(given, str) else given or []
    kept = [name for name in wanted if any(map(importlib.util.find_spec, REPORTERS.get(name, ())))]
    if kept:
        place = str(folder)
        os.environ |= {"WANDB_MODE": "offline", "WANDB_DIR": place, "WANDB_SILENT": "true"}
        os.environ |= {"MLFLOW_TRACKING_URI": f"sqlite:///{place}/mlflow.db", "TENSORBOARD_LOGGING_DIR": place}
    return kept


class FineTune:
    """A fine-tune by Trainer (`slowstep.workloads.base.Workload` describes the methods)."""

    encode: data.Encoder | None = None
    """The encoder of the examples; None for data without tokens."""

    frozen_base: Path | None = None
    """The file of a frozen base that was built beforehand (`slowstep.workloads.build_base`); None to build it."""

    shared: Path | None = None
    """The folder of what the trials of one measurer find out once for all of them; None if each does by itself."""

    def __init__(self, settings: Settings, folder: Path):
        self.settings, self.folder = settings, folder

    def prepare_data(self) -> None:
        self.arguments = training_arguments(self.settings, self.folder)
        set_seed(self.arguments.seed)
        d = self.settings.dataset
        self.source, self.collate = self.load()
        # a dataset of one's own is left alone: what it opens when it is asked here, loader workers would find open
        own = not isinstance(self.source, datasets.Dataset | data.OnTheFly | list)
        if not own and (why := data_check.no_label(self.source, self.settings, data.IGNORED)):
            raise NotTestable(why)
        self.evaluation = Subset(self.source, range(min(d.eval_samples, len(self.source))))
        self.examples = data.epoch(self.source, self.settings)
        if d.cached_batches:
            cached = data.Cached(self.examples, self.collate)
            self.examples, self.collate = cached.indices, cached

    def load(self) -> tuple[Sequence[Any], Callable[[list[Any]], data.Batch]]:
        """Return the examples and their collator. A workload of the user's own may return others."""
        tokenizer = data.load_tokenizer(self.settings)
        raw = data.read_examples(self.settings, self.folder)
        self.encode = data.Encoder(self.settings, tokenizer)
        return data.tokenised(raw, self.settings, self.encode), data.collator(self.settings, tokenizer)

    def build_model(self) -> None:
        self.device = self.arguments.device.type
        set_seed(self.arguments.seed)
        try:
            self.model = model.with_adapter(self._base(), self.settings)
        except ImportError as error:
            # an attention implementation or a quantisation whose package or device is missing
            raise NotTestable(str(error).splitlines()[0]) from error

    def _base(self) -> torch.nn.Module:
        """Return the base that was built beforehand; one of its own where there is none, or where it can't be read."""
        if self.frozen_base:
            with contextlib.suppress(Exception):
                return self._read(self.frozen_base)
            hooks.beforehand.pop("base", None)
            set_seed(self.arguments.seed)
        return model.base(self.settings, self.arguments.device)

    def _read(self, path: Path) -> torch.nn.Module:
        base, draws = arena.read(path)
        adopt(base)
        arena.go_on_from(draws)  # adapters are drawn as if the base had been built here
        if self.settings.model.attn_implementation:
            base.set_attn_implementation(self.settings.model.attn_implementation)
        return base

    def build_trainer(self) -> None:
        more = self.settings.optimizer_kwargs
        optimizer, keywords = Trainer.get_optimizer_cls_and_kwargs(self.arguments, self.model) if more else (None, {})
        self.trainer = Trainer(
            model=self.model,
            args=self.arguments,
            train_dataset=self.examples,
            eval_dataset=self.evaluation,
            data_collator=self.collate,
            optimizer_cls_and_kwargs=(optimizer, keywords | more) if more else None,
        )
        self.trainer.remove_callback(PrinterCallback)
        if isinstance(self.collate, data.Cached):
            with torch.random.fork_rng(devices=[]):
                plan = self.trainer.get_train_dataloader().batch_sampler
                self.collate.fill(itertools.islice(plan, self.settings.dataset.cached_batches))

    @property
    def loader(self) -> DataLoader:
        """The loader that training draws from."""
        return self.trainer.callback_handler.train_dataloader

    def train(self) -> None:
        backend = self.settings.model.sdpa_backend
        with sdpa_kernel(SDPA[backend]) if backend else contextlib.nullcontext():
            self.trainer.train()

    def observe(self) -> dict[str, Any]:
        return trainer_facts(self) | arena.facts([self.model])

    def periodic_events(self) -> dict[str, Callable[[], EventResult]]:
        events = {"save": self._save, "evaluate": self._evaluate}
        return {event: happen for event, happen in events.items() if is_rare(self.settings.run, event)}

    def _save(self) -> EventResult:
        self.trainer._save_checkpoint(self.trainer.model, trial=None)
        written = [f.parent for f in self.folder.glob("checkpoint-*/trainer_state.json")]
        size = sum(f.stat().st_size for folder in written for f in folder.rglob("*") if f.is_file())
        return EventResult(bytes=size, clear=lambda: [shutil.rmtree(folder) for folder in written])

    def _evaluate(self) -> EventResult:
        self.trainer.evaluate()
        return EventResult(samples=len(self.evaluation))
