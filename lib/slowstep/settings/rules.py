"""Rules that find impossible combinations of settings before anything is started. Each yields (key, message)."""

from __future__ import annotations

import keyword
import math
import os
from collections.abc import Iterator
from pathlib import Path

from slowstep.settings.command import Command
from slowstep.settings.errors import nearest
from slowstep.settings.library_arguments import FOREACH, FUSED, architectures
from slowstep.settings.model_folder import damaged
from slowstep.settings.periodic_events import interval, strategy
from slowstep.settings.settings import WORKLOADS, Settings
from slowstep.settings.slurm import impossible_measure

Problem = tuple[str, str]


def impossible(s: Settings) -> Iterator[Problem]:
    """Yield (key, message) for everything in `s` that can't work on any machine."""
    yield from impossible_measure(s.measure)
    yield from _numbers(s)
    if s.command is not None:  # what the program does with them, it knows itself
        yield from _command(s.command)
        yield from _budget(s)
        return
    yield from _workload(s)
    yield from _names(s)
    yield from _model(s)
    yield from _attention(s)
    yield from _dataset(s)
    yield from _training(s)
    yield from _budget(s)
    for section in ("arguments", "files", "given"):
        if getattr(s, section):
            yield section, "only a command has options and files of its own, and this file describes a run."


def _command(command: Command) -> Iterator[Problem]:
    """Yield what is missing in a command; a survey writes it whole, and somebody may have edited it."""
    if not command.arguments or (command.arguments[0] == "-m" and len(command.arguments) < 2):
        why = "names no program; put the command after `slowstep diagnose --` again, and it is written anew."
        yield "command.arguments", why


AT_LEAST = {
    "processes": 1,
    "process.num_threads": 1,
    "nodes.number": 0,
    "zero_optimization.stage": 0,
    "zero_optimization.reduce_bucket_size": 1,
    "zero_optimization.allgather_bucket_size": 1,
    "zero_optimization.stage3_prefetch_bucket_size": 1,
    "dataset.num_samples": 1,
    "dataset.eval_samples": 0,
    "dataset.cached_batches": 0,
    "training_arguments.per_device_train_batch_size": 1,
    "training_arguments.per_device_eval_batch_size": 1,
    "training_arguments.gradient_accumulation_steps": 1,
    "training_arguments.dataloader_num_workers": 0,
    "training_arguments.save_steps": 0,
    "training_arguments.eval_steps": 0,
    "training_arguments.logging_steps": 0,
    "training_arguments.dataloader_prefetch_factor": 1,
    "peft.r": 1,
    "measure.slurm.nodes": 1,
    "measure.slurm.timeout_min": 1,
    "measure.slurm.cpus_per_task": 1,
    "measure.slurm.gpus_per_node": 0,
    "job.price_per_hour": 0,
    "budget.block_steps_min": 1,
    "budget.launches": 1,
    "budget.rarest_stall": 1,
    "budget.observe_seconds": 0,
    "budget.redo_blocks": 0,
}
"""The least that a number may be, by its key."""

ABOVE_ZERO = (
    "ddp.bucket_cap_mb",
    "peft.lora_alpha",
    "job.samples",
    "job.epochs",
    "budget.minimum_effect",
    "budget.block_seconds",
    "budget.minutes",
    "budget.startup_timeout_seconds",
    "budget.step_timeout_seconds",
    "budget.memory_limit_gib",
    "measure.slurm.mem_gb",
)
"""The keys of numbers that are above 0."""

INFINITE = {"budget.observe_seconds"}
"""The keys of numbers that need no end."""


def _numbers(s: Settings) -> Iterator[Problem]:
    """Check the numbers that have a least value. Whatever is no number is found where its type is checked."""
    for key, least in [*AT_LEAST.items(), *((key, None) for key in ABOVE_ZERO)]:
        value = _given(s, key)
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        finite = value < math.inf or (key in INFINITE and value == math.inf)
        if not finite or not (value > 0 if least is None else value >= least):
            limit = "above 0" if least is None else f"at least {least}" if least else "0 or more"
            yield key, f"found {value}; it must be {limit}{', and finite' * (not finite)}."
    if (s.zero_optimization.stage or 0) > 3:
        yield "zero_optimization.stage", f"found {s.zero_optimization.stage}; DeepSpeed has the stages 0 to 3."


def _given(s: Settings, key: str) -> object:
    """Return the value that a file gives to a dotted key; None for none."""
    value: object = s
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    return value


def not_here(s: Settings) -> Iterator[Problem]:
    """Yield (key, message) for what `s` names and this machine lacks: local files, architectures of transformers."""
    if s.command is None:
        yield from _model_here(s)
        yield from _data_here(s)


def _workload(s: Settings) -> Iterator[Problem]:
    module, colon, name = s.workload.partition(":")
    importable = colon and name.isidentifier() and all(part.isidentifier() for part in module.split("."))
    if s.workload not in WORKLOADS and not importable:
        yield (
            "workload",
            f"found '{s.workload}'; expected a registered workload, or module:Class for one of your own."
            f"{nearest(s.workload, WORKLOADS)}",
        )


LOADER_ARGUMENTS = {
    "trust_remote_code", "use_safetensors", "weights_only", "device_map", "quantization_config",
    "torch_dtype", "dtype", "state_dict", "attn_implementation", "pretrained_model_name_or_path",
    "model_type", "config", "self", "cls", "code_revision", "gguf_file", "auto_map", "kernel_config",
    "use_kernels", "adapter_kwargs", "token", "use_auth_token", "proxies",
}  # fmt: skip
"""Arguments that from_pretrained and for_model take beside the values of a configuration. They say where a model comes
from and how it is loaded. The kit decides that (only safetensors, and no code from a repository), or other keys do."""


def _names(s: Settings) -> Iterator[Problem]:
    """Check the keys that become the names of a library's arguments."""
    sections = {"model.config": s.model.config, "optimizer_kwargs": s.optimizer_kwargs or {}}
    for section, given in (("training_arguments", s.training_arguments), ("peft", s.peft or {})):
        sections |= {f"{section}.{k}": v for k, v in given.items() if k.endswith("_kwargs") and isinstance(v, dict)}
    for section, given in sections.items():
        for key in given:
            if not key.isidentifier() or keyword.iskeyword(key):
                yield section, f"found the key {key[:60]!r}; the name of an argument is letters, digits, underscores."
    for key in s.model.config.keys() & LOADER_ARGUMENTS:
        yield f"model.config.{key}", "this is said by no configuration, but to what loads a model; remove it."


def _model(s: Settings) -> Iterator[Problem]:
    m = s.model
    if s.figures_alone:
        return
    if m.init == "random":
        if m.model_type is None and m.name_or_path is None:
            yield "model.model_type", "init: random needs the architecture, for example 'llama' or 'mistral'."
    elif m.name_or_path is None:
        yield (
            "model.name_or_path",
            "init: pretrained needs a Hub id or a local folder; init: random builds one instead.",
        )
    if s.quantization:
        four, eight = s.quantization.get("load_in_4bit"), s.quantization.get("load_in_8bit")
        if four and eight:
            yield "quantization", "load_in_4bit and load_in_8bit are both true; a model has one or the other."
        if not four and any(key.startswith("bnb_4bit_") for key in s.quantization):
            yield "quantization", "keys of 4-bit weights are given, and load_in_4bit is not true."
        if not s.peft:
            yield "quantization", "quantised weights can't be trained themselves: add a peft section (LoRA)."


def _model_here(s: Settings) -> Iterator[Problem]:
    m = s.model
    if s.figures_alone:
        return
    if m.init == "random" and m.model_type is not None and (known := architectures()) and m.model_type not in known:
        yield "model.model_type", f"transformers has no architecture '{m.model_type}'.{nearest(m.model_type, known)}"
    if m.name_or_path is None:
        return
    path = _path(m.name_or_path)
    looks_local = m.name_or_path.startswith((".", "/", "~")) or m.name_or_path.count("/") > 1
    is_folder = os.path.isdir(path)
    if looks_local and not is_folder:
        yield "model.name_or_path", f"there is no folder '{m.name_or_path}'."
    elif is_folder and not (path / "config.json").is_file():
        yield "model.name_or_path", f"'{m.name_or_path}' holds no config.json, so it is no model folder."
    elif is_folder and m.init == "pretrained" and not list(path.glob("*.safetensors")):
        why = f"'{m.name_or_path}' holds no .safetensors file; other weight formats are not loaded."
        yield "model.name_or_path", why
    elif is_folder:
        yield from (("model.name_or_path", message) for message in damaged(path))


def _attention(s: Settings) -> Iterator[Problem]:
    m = s.model
    if m.sdpa_backend and m.attn_implementation not in (None, "sdpa"):
        yield (
            "model.sdpa_backend",
            f"attn_implementation is {m.attn_implementation}, which does not use it; remove one.",
        )
    in_32_bit = m.dtype == "float32" and not (s.training("bf16") or s.training("fp16"))
    if m.attn_implementation == "flash_attention_2" and in_32_bit:
        yield "model.attn_implementation", "flash attention computes in 16 bit only: set bf16, fp16 or model.dtype."
    if m.torch_compile_dynamic is not None and not s.run.compiled:
        yield "model.torch_compile_dynamic", "nothing is compiled: training_arguments.torch_compile is not set."


def _dataset(s: Settings) -> Iterator[Problem]:
    d = s.dataset
    if d.max_length < 2:
        yield "dataset.max_length", f"found {d.max_length}; a sequence needs at least 2 tokens to predict one."
    for name in ("max_position_embeddings", "n_positions"):
        limit = s.model.config.get(name)
        if isinstance(limit, int) and d.max_length > limit:
            yield "dataset.max_length", f"found {d.max_length}, beyond the model's {name} ({limit})."


def _data_here(s: Settings) -> Iterator[Problem]:
    name = s.dataset.name_or_path
    if name.endswith((".jsonl", ".json")) and not os.path.isfile(_path(name)):
        yield "dataset.name_or_path", f"there is no file '{name}'."


def _training(s: Settings) -> Iterator[Problem]:
    at = "training_arguments."
    yield from _workers(s)
    if s.dataset.padding == "packing" and s.dataset.tokenize != "once":
        yield "dataset.tokenize", "packing needs the lengths of the examples beforehand: write tokenize: once."
    if s.training_arguments.get("auto_find_batch_size"):
        yield at + "auto_find_batch_size", "trials would not train what is asked with it; remove this key."
    if s.training_arguments.get("fsdp"):
        yield at + "fsdp", "a described run has no FSDP; diagnose a script that has it by its command."
    if s.dataset.padding == "packing" and s.training("train_sampling_strategy") == "group_by_length":
        yield at + "train_sampling_strategy", "packed sequences are all of one length; grouping them saves nothing."
    if s.training("load_best_model_at_end"):
        yield from _best_model(s)
    yield from _optimizer(s)
    yield from _compiling(s)
    for name in ("gradient_checkpointing_kwargs", "accelerator_config"):
        if isinstance(s.training_arguments.get(name), str):
            yield at + name, "found a text; write it as a mapping, each key on a line of its own."
    if s.training_arguments.get("logging_steps") == 0 and (s.training("logging_strategy") or "steps") == "steps":
        yield at + "logging_steps", "found 0; it must be above 0. To log nothing, write logging_strategy: 'no'."
    if s.job.epochs and isinstance(most := s.training_arguments.get("max_steps"), int) and most > 0:
        yield at + "max_steps", f"training ends after {most} steps, and job.epochs says that it does not; remove one."
    if s.training("bf16") and s.training("fp16"):
        yield at + "bf16", "bf16 and fp16 are both true; choose one."
    if s.training_arguments.get("output_dir") is not None:
        yield at + "output_dir", "trials write to their own temporary folder; remove this key."


def _workers(s: Settings) -> Iterator[Problem]:
    at = "training_arguments.dataloader_"
    if s.training("dataloader_num_workers") != 0:
        return
    if s.training("dataloader_prefetch_factor") is not None:
        why = "without workers (dataloader_num_workers: 0) nothing is prefetched; remove it or add workers."
        yield at + "prefetch_factor", why
    if s.training("dataloader_persistent_workers"):
        yield at + "persistent_workers", "there are no workers to persist: dataloader_num_workers is 0."


def _optimizer(s: Settings) -> Iterator[Problem]:
    optim, foreach = s.training("optim") or "adamw_torch_fused", (s.optimizer_kwargs or {}).get("foreach")
    if foreach if optim == "adamw_torch_fused" else foreach is not None and optim not in FOREACH:
        yield "optimizer_kwargs.foreach", f"{optim} takes no foreach; write optim: adamw_torch."
    fused = (s.optimizer_kwargs or {}).get("fused")
    if fused and optim not in (*FUSED, "adamw_torch", "adamw_torch_fused"):
        yield "optimizer_kwargs.fused", f"{optim} takes no fused; remove this key."
    if fused and foreach:
        yield "optimizer_kwargs.foreach", "an update in one kernel (optimizer_kwargs.fused) takes no lists; remove one."


def _compiling(s: Settings) -> Iterator[Problem]:
    if s.training_arguments.get("torch_compile") is False:
        for name in ("torch_compile_mode", "torch_compile_backend"):
            if s.training_arguments.get(name):
                why = "with it Trainer compiles, and torch_compile is false; remove one of the two."
                yield f"training_arguments.{name}", why


def _best_model(s: Settings) -> Iterator[Problem]:
    """Refuse what TrainingArguments would refuse: trials don't load the best model, but the job would not start."""
    if strategy(s.run, "save") == "best":  # it saves after the evaluations that it needs
        return
    if strategy(s.run, "save") != strategy(s.run, "evaluate"):
        yield "training_arguments.load_best_model_at_end", "needs save_strategy and eval_strategy to be the same."
    elif strategy(s.run, "save") == "steps":
        # either interval may be a share of the job's steps
        saved, evaluated = (round(float(interval(s.run, event) or 0) * 1e6) for event in ("save", "evaluate"))
        if evaluated and saved % evaluated:
            yield "training_arguments.save_steps", "load_best_model_at_end needs a multiple of eval_steps."


def _budget(s: Settings) -> Iterator[Problem]:
    b = s.budget
    if b.minimum_effect >= 1:
        yield "budget.minimum_effect", f"found {b.minimum_effect}; it is a share: write 0.05 for 5 %."
    for name in ("max_pairs", "noise_pairs"):
        if getattr(b, name) < 3:  # judgement.comparison.FEWEST_PAIRS
            yield f"budget.{name}", f"found {getattr(b, name)}; an interval needs at least 3 pairs."


def _path(text: str) -> Path:
    """Return the path with `~` expanded if possible. Ask os.path about it: Path.is_dir raises on impossible names."""
    return Path(os.path.expanduser(text))
