"""The built-in workload: a causal language model fine-tuned by transformers' Trainer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
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

EPOCH_IN_BLOCK = 200
"""Epochs of up to so many steps are measured whole where workers are at play."""

ENDLESS = 10**9


def accelerator_available() -> bool:
    """Whether PyTorch has a device other than the processor."""
    return torch.cuda.is_available() or torch.backends.mps.is_available()


def training_arguments(settings: Settings, folder: Path) -> TrainingArguments:
    """The run's TrainingArguments as a trial uses them: without end, without rare events, writing to `folder`."""
    # without a device Trainer wants to be told so, or it refuses bf16
    given = {"use_cpu": not accelerator_available()} | settings.training_arguments | {"report_to": "none"}
    for event in ("save", "eval"):
        given[f"{event}_strategy"] = "no" if event in rare_events(settings) else settings.training(f"{event}_strategy")
    given |= {"load_best_model_at_end": False, "push_to_hub": False}
    return TrainingArguments(
        **given
        | {"output_dir": str(folder), "max_steps": ENDLESS, "disable_tqdm": True, "remove_unused_columns": False}
    )


def rare_events(settings: Settings) -> set[str]:
    """Of 'save' and 'eval', those that the run does, and does too rarely to meet in a block."""
    rare = set()
    for event in ("save", "eval"):
        strategy = str(settings.training(f"{event}_strategy") or "no")
        steps = settings.training(f"{event}_steps") or settings.training("logging_steps")
        often = strategy == "steps" and isinstance(steps, int | float) and 1 <= steps <= RARE
        if strategy != "no" and not often:
            rare.add(event)
    return rare


class FineTune:
    """A workload (see `slowstep.workloads.base.Workload`)."""

    def __init__(self, settings: Settings, folder: Path):
        self.settings, self.folder = settings, folder

    def prepare_data(self) -> None:
        self.arguments = training_arguments(self.settings, self.folder)
        set_seed(self.arguments.seed)
        d = self.settings.dataset
        self.source, self.collate = self.load()
        self.evaluation = Subset(self.source, range(min(d.eval_samples, len(self.source))))
        self.examples = data.epoch(self.source, self.settings.job.samples)
        if d.cached_batches:
            cached = data.Cached(self.examples, self.collate)
            self.examples, self.collate = cached.indices, cached

    def load(self) -> tuple[Sequence[Any], Callable[[list[Any]], data.Batch]]:
        """Examples, and what makes batches of them; a workload of one's own may bring others."""
        tokenizer = data.load_tokenizer(self.settings)
        examples = data.tokenised(data.read_examples(self.settings), self.settings, tokenizer)
        return examples, data.collator(self.settings, tokenizer)

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
        adapters = getattr(t.model, "peft_config", None)
        return {
            "device": self.device,
            "dataloader_num_workers": loader.num_workers,
            "dataloader_prefetch_factor": loader.prefetch_factor,
            "dataloader_persistent_workers": loader.persistent_workers,
            "dataloader_pin_memory": loader.pin_memory and self.device != "cpu",
            "event_period": self._period(),
            "cached_batches": d.cached_batches if isinstance(self.collate, data.Cached) else 0,
            "tokenize": "on_the_fly" if isinstance(self.source, data.OnTheFly) else "once",
            "padding": self._padding(),
            "max_length": d.max_length,
            "examples": len(self.examples),
            **self._epoch(),
            "per_device_train_batch_size": t.args.per_device_train_batch_size,
            "gradient_accumulation_steps": t.args.gradient_accumulation_steps,
            "gradient_checkpointing": any(m.gradient_checkpointing for m in modules if m.training),
            "attn_implementation": getattr(t.model.config, "_attn_implementation", None),
            "optim": str(getattr(t.args.optim, "value", t.args.optim)),
            "optimizer": type(getattr(t.optimizer, "optimizer", t.optimizer)).__name__,
            "optimizer_state_bits": _state_bits(t.optimizer),
            "optimizer_paged": any(getattr(v, "is_paged", False) for v in _states(t.optimizer)),
            "autocast": t.accelerator.mixed_precision,
            "weight_bits": model.weight_bits(t.model),
            "lora_r": adapters["default"].r if adapters else None,
            "compiled": isinstance(t.model_wrapped, torch._dynamo.eval_frame.OptimizedModule),
            **self._sizes(),
        }

    def _padding(self) -> str:
        """As the collator and the examples really are."""
        collate = self.collate.collate if isinstance(self.collate, data.Cached) else self.collate
        if isinstance(self.source, list):
            return "packing"
        return "max_length" if collate.length else "longest"

    def _epoch(self) -> dict[str, int]:
        """Steps and positions of the job's epoch, of which the blocks see a small part; a trial's epoch is as long."""
        a, loader = self.trainer.args, self.trainer.callback_handler.train_dataloader
        batches, batch = len(loader), a.per_device_train_batch_size
        found = {"epoch_steps": math.ceil(batches / a.gradient_accumulation_steps)}
        if isinstance(self.collate, data.Cached):
            return found
        seen = None if self.collate.length else data.lengths(self.source)
        length = self.collate.length if seen is None else data.longest_of(seen, batch)
        if length is not None:
            found["epoch_padded_tokens"] = round(min(len(self.examples), batches * batch) * length)
        return found

    def _period(self) -> int:
        """Steps after which the events that stay in a trial repeat together."""
        a = self.trainer.args
        every = [int(a.save_steps)] * (a.save_strategy != "no") + [int(a.eval_steps or 1)] * (a.eval_strategy != "no")
        steps = math.ceil(len(self.trainer.callback_handler.train_dataloader) / a.gradient_accumulation_steps)
        if a.dataloader_num_workers and 0 < steps <= EPOCH_IN_BLOCK:
            every.append(steps)  # workers start with each epoch, and whole epochs hold as many starts as the job's
        return math.lcm(*every)

    def _sizes(self) -> dict[str, int]:
        """What formulas of work and memory need to know about the model; nothing where it has no such sizes."""
        config = self.trainer.model.config.get_text_config()
        embedding = self.trainer.model.get_input_embeddings().weight
        if not hasattr(config, "num_hidden_layers") or not hasattr(config, "hidden_size"):
            return {}
        matmul = trained = 0
        for p in self.trainer.model.parameters():
            size = p.quant_state.shape.numel() if getattr(p, "quant_state", None) else p.numel()
            trained += size if p.requires_grad else 0
            # the input embedding is a look-up and not a matmul, unless the output head is tied to it
            looked_up = p is embedding and not getattr(config, "tie_word_embeddings", False)
            matmul += size if p.dim() > 1 and not looked_up else 0
        return {
            "matmul_parameters": matmul,
            "trained_parameters": trained,
            "layers": config.num_hidden_layers,
            "hidden_size": config.hidden_size,
            "vocab_size": embedding.shape[0],
        }

    def occasions(self) -> dict[str, Callable[[], Occurrence]]:
        events: dict[str, Callable[[], Occurrence]] = {}
        if "save" in rare_events(self.settings):
            events["save"] = self._save
        if "eval" in rare_events(self.settings):
            events["evaluate"] = self._evaluate
        return events

    def _save(self) -> Occurrence:
        self.trainer._save_checkpoint(self.trainer.model, trial=None)
        written = sum(f.stat().st_size for f in self.folder.rglob("*") if f.is_file())
        return Occurrence(bytes=written)

    def _evaluate(self) -> Occurrence:
        self.trainer.evaluate()
        return Occurrence(samples=len(self.evaluation))


def _states(optimizer: Any) -> list[torch.Tensor]:
    """The optimizer's state tensors, without the step counters."""
    values = (v for state in optimizer.state.values() for v in state.values())
    return [v for v in values if isinstance(v, torch.Tensor) and v.numel() > 1]


def _state_bits(optimizer: Any) -> int | None:
    """Bits of the largest optimizer state tensor's elements; None before the first step or without state."""
    moments = [v for v in _states(optimizer) if v.is_floating_point() or v.dtype == torch.uint8]
    return max(moments, key=lambda v: v.numel()).element_size() * 8 if moments else None
