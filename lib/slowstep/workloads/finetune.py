"""The built-in workload: a causal language model fine-tuned by transformers' Trainer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Subset
from transformers import PrinterCallback, Trainer, TrainingArguments, set_seed

from slowstep.settings import Settings
from slowstep.workloads import data, model
from slowstep.workloads.base import NotTestable, Occurrence

RARE = 20
"""An event that comes less often than once in so many steps is kept out of the trials and measured on its own;
a block holds a few dozen steps, and would meet such an event by luck."""

ENDLESS = 10**9


def accelerator_available() -> bool:
    """Whether PyTorch has a device other than the processor."""
    return torch.cuda.is_available() or torch.backends.mps.is_available()


def training_arguments(settings: Settings, folder: Path) -> TrainingArguments:
    """The run's TrainingArguments as a trial uses them: without end, without rare events, writing to `folder`."""
    # without a device Trainer wants to be told so, or it refuses bf16
    given = {"report_to": "none", "use_cpu": not accelerator_available()} | settings.training_arguments
    for event in ("save", "eval"):
        steps = given.get(f"{event}_steps") or given.get("logging_steps")
        often = given.get(f"{event}_strategy") == "steps" and isinstance(steps, int | float) and 1 <= steps <= RARE
        given[f"{event}_strategy"] = "steps" if often else "no"
    given |= {"load_best_model_at_end": False, "push_to_hub": False}
    return TrainingArguments(
        **given
        | {"output_dir": str(folder), "max_steps": ENDLESS, "disable_tqdm": True, "remove_unused_columns": False}
    )


class FineTune:
    """A workload (see `slowstep.workloads.base.Workload`)."""

    def __init__(self, settings: Settings, folder: Path):
        self.settings, self.folder = settings, folder

    def prepare_data(self) -> None:
        self.arguments = training_arguments(self.settings, self.folder)
        set_seed(self.arguments.seed)
        d = self.settings.dataset
        self.tokenizer = data.load_tokenizer(self.settings)
        raw = data.read_examples(self.settings)
        self.examples = data.tokenised(raw, self.settings, self.tokenizer)
        self.collate: Callable[[list[Any]], data.Batch] = data.collator(self.settings, self.tokenizer)
        self.evaluation = Subset(self.examples, range(min(d.eval_samples, len(self.examples))))
        self.evaluation_collate = self.collate
        if d.cached_batches:
            cached = data.Cached(self.examples, self.collate)
            self.examples, self.collate = cached.indices, cached

    def build_model(self) -> None:
        self.device = self.arguments.device.type
        set_seed(self.arguments.seed)
        try:
            self.model = model.build(self.settings, self.arguments.device)
        except ImportError as error:
            # an attention implementation or a quantisation whose package or device is missing
            raise NotTestable(str(error).splitlines()[0]) from error

    def build_trainer(self) -> None:
        self.trainer = Trainer(
            model=self.model,
            args=self.arguments,
            train_dataset=self.examples,
            eval_dataset=self.evaluation,
            data_collator=self.collate,
        )
        self.trainer.remove_callback(PrinterCallback)
        if isinstance(self.collate, data.Cached):
            with torch.random.fork_rng(devices=[]):
                plan = self.trainer.get_train_dataloader().batch_sampler
                self.collate.fill(itertools.islice(plan, self.settings.dataset.cached_batches))

    def train(self) -> None:
        self.trainer.train()

    def observe(self) -> dict[str, Any]:
        t, d = self.trainer, self.settings.dataset
        loader = t.callback_handler.train_dataloader
        modules = [m for m in t.model.modules() if getattr(m, "gradient_checkpointing", None) is not None]
        base = getattr(t.model, "base_model", t.model)
        adapters = getattr(t.model, "peft_config", None)
        return {
            "device": self.device,
            "dataloader_num_workers": loader.num_workers,
            "dataloader_prefetch_factor": loader.prefetch_factor,
            "dataloader_persistent_workers": loader.persistent_workers,
            "dataloader_pin_memory": loader.pin_memory and self.device != "cpu",
            "event_period": self._period(),
            "cached_batches": d.cached_batches if isinstance(self.collate, data.Cached) else 0,
            "tokenize": "on_the_fly" if isinstance(self.examples, data.OnTheFly) else "once",
            "padding": d.padding,
            "max_length": d.max_length,
            "examples": len(self.examples),
            "per_device_train_batch_size": t.args.per_device_train_batch_size,
            "gradient_accumulation_steps": t.args.gradient_accumulation_steps,
            "gradient_checkpointing": any(m.gradient_checkpointing for m in modules if m.training),
            "attn_implementation": getattr(t.model.config, "_attn_implementation", None),
            "optim": str(getattr(t.args.optim, "value", t.args.optim)),
            "optimizer": type(getattr(t.optimizer, "optimizer", t.optimizer)).__name__,
            "optimizer_state_bits": _state_bits(t.optimizer),
            "autocast": t.accelerator.mixed_precision,
            "weight_bits": model.weight_bits(base),
            "lora_r": adapters["default"].r if adapters else None,
            "compiled": isinstance(t.model_wrapped, torch._dynamo.eval_frame.OptimizedModule),
            **self._sizes(),
        }

    def _period(self) -> int:
        """Steps after which the events that stay in a trial repeat together."""
        a = self.trainer.args
        every = [int(a.save_steps)] * (a.save_strategy != "no") + [int(a.eval_steps or 1)] * (a.eval_strategy != "no")
        return math.lcm(*every)

    def _sizes(self) -> dict[str, int]:
        """What formulas of work and memory need to know about the model."""
        config = self.trainer.model.config
        embedded = self.trainer.model.get_input_embeddings().weight.shape[0]
        matmul = trained = 0
        for name, p in self.trainer.model.named_parameters():
            size = p.quant_state.shape.numel() if hasattr(p, "quant_state") and p.quant_state else p.numel()
            trained += size if p.requires_grad else 0
            # the input embedding is a look-up, not a matmul; an output head tied to it still is one
            matmul += size if p.dim() > 1 and "embed_tokens" not in name else 0
        if getattr(config, "tie_word_embeddings", False):
            matmul += embedded * config.hidden_size
        return {
            "matmul_parameters": matmul,
            "trained_parameters": trained,
            "layers": config.num_hidden_layers,
            "hidden_size": config.hidden_size,
            "vocab_size": embedded,
        }

    def occasions(self) -> dict[str, Callable[[], Occurrence]]:
        events: dict[str, Callable[[], Occurrence]] = {}
        if self.settings.training("save_strategy") != "no":
            events["save"] = self._save
        if self.settings.training("eval_strategy") != "no":
            events["evaluate"] = self._evaluate
        return events

    def _save(self) -> Occurrence:
        self.trainer._save_checkpoint(self.trainer.model, trial=None)
        written = sum(f.stat().st_size for f in self.folder.rglob("*") if f.is_file())
        return Occurrence(bytes=written)

    def _evaluate(self) -> Occurrence:
        training_collate, self.trainer.data_collator = self.trainer.data_collator, self.evaluation_collate
        self.trainer.evaluate()
        self.trainer.data_collator = training_collate
        return Occurrence(samples=len(self.evaluation))


def _state_bits(optimizer: Any) -> int | None:
    """Bits of the largest optimizer state tensor's elements; None before the first step or without state."""
    states = [v for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor) and v.numel() > 1]
    moments = [v for v in states if v.is_floating_point() or v.dtype == torch.uint8]
    return max(moments, key=lambda v: v.numel()).element_size() * 8 if moments else None
