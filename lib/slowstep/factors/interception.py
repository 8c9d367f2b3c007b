"""The changes that can be made to a command's program from outside, by the kinds of objects that it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slowstep.factors.factor import Level
from slowstep.settings.run import Run
from slowstep.text.sentences import listed
from slowstep_probe.changing.intervention import KEYWORDS, given_name

OPTIMIZER_IMPLEMENTATIONS = ("adamw_torch", "adamw_torch_fused")
"""Names of one optimizer that goes over its parameters in different ways."""

PROCESS_CHANGES = (
    *("training_arguments.tf32", "model.sdpa_backend", "freed_memory"),
    *("process", "processes", "nodes", "ddp", "fsdp", "zero_optimization"),
)
"""Changes of the process, for which the program needs to make nothing."""


def impossible(level: Level, run: Run) -> str | None:
    """Return why a level can't be had in a command's program, or None. Described runs can have all levels."""
    if run.objects is None:
        return None
    changes = level.held_constant | level.changes
    return next((why for key, value in changes.items() if (why := _refusal(key, value, run, run.objects))), None)


def _refusal(key: str, value: Any, run: Run, objects: frozenset[str]) -> str | None:
    section, _, name = key.rpartition(".")
    if key == WORKERS and value > max(1, run["dataloader_num_workers"] or 0) and run["repeated_by_workers"]:
        return REPEATED
    if why := _not_for_workers(key, value, run):
        return why
    if given_name(key) or key in PROCESS_CHANGES or section in PROCESS_CHANGES:
        return None
    if key == "training_arguments.gradient_checkpointing_kwargs" and set(value or {}) & KIT_ALONE:
        return "only the runs that the kit describes itself have it"
    if key in KEY_REFUSALS:
        return KEY_REFUSALS[key](value, run, objects)
    if section == "training_arguments" and "arguments" in objects:
        return None
    if key in KEYWORDS:
        return _loader(value, run, objects) or (_one_size(run) if name == BATCH else None)
    if section == "training_arguments" and name in ARGUMENT_REFUSALS:
        return ARGUMENT_REFUSALS[name](value, run, objects)
    if section == "peft" and "peft" in objects:
        return None
    return f"the program makes nothing that {key} could be changed in"


def _not_for_workers(key: str, value: Any, run: Run) -> str | None:
    """Return why the data set can't be handed to workers, or not to those that stay from epoch to epoch."""
    if key == WORKERS and value > 0 and not run["dataloader_num_workers"]:
        return next((why.format(run[fact]) for fact, why in NOT_FOR_WORKERS.items() if run[fact]), None)
    changed = run["changed_within_epochs"] or run["changed_between_epochs"]
    if key == PERSISTENT and value and changed:
        return f"the program changes its data set in training ({changed}), which workers that stay would not see"
    return None


def _one_size(run: Run) -> str | None:
    """Return why a batch of one size can't be had: several loaders feed the training by batches of unlike sizes."""
    if not (sizes := run["unlike_batch_sizes"]):
        return None
    sizes = listed([str(size) for size in sizes])
    return f"its training is fed by loaders of unlike batch sizes ({sizes}), and all of them would get one"


BATCH = "per_device_train_batch_size"
WORKERS = "training_arguments.dataloader_num_workers"
PERSISTENT = "training_arguments.dataloader_persistent_workers"

REPEATED = (
    "each worker would give all of the data, since its IterableDataset was not seen to ask which worker it runs in "
    "(torch.utils.data.get_worker_info)"
)

NOT_FOR_WORKERS = {
    "opened_by_data_set": (
        "its data set reads from what is open before its first batch ({}), and all workers would move that place for "
        "each other; open it in the worker, where the first item is asked for"
    ),
    "drawn_by_data_set": (
        "its data set draws from a random generator of its own ({}), of which each worker would have a copy, so that "
        "all draw the same numbers; seed it anew in a worker_init_fn, by torch.initial_seed()"
    ),
    "counted_by_data_set": (
        "its data set counts in {} while it makes batches, and each worker would count in a copy of its own, anew in "
        "each epoch; a multiprocessing.Value is shared by all"
    ),
    "kept_by_data_set": (
        "its data set keeps what it has read ({}), for later epochs to find: each worker would keep items of its own, "
        "and lose them as an epoch ends. They may pay in the first epoch alone; keep items in files, or read them all "
        "before training, where workers find them"
    ),
    "trained_in_data_set": (
        "its data set holds a model that is trained ({}), and workers would have copies that nobody trains"
    ),
    "changed_in_sampler": (
        "the program changes its sampler between batches ({}), and workers are asked for batches ahead"
    ),
    "changed_within_epochs": "the program changes its data set between batches ({}), which workers would not see",
}
"""Why a data set can't be handed to workers, by the fact that a survey saw; the braces stand for what it saw."""

KIT_ALONE = {"every_n_layers", "offload"}
"""Keys of gradient_checkpointing_kwargs that the kit's own workloads understand, and nobody else."""

NO_LOADER = "the program makes its batches itself, without a DataLoader"

OTHER_LOADER = (
    "the program's loader is no DataLoader of PyTorch's, but a library's or its own, whose arguments are not known; "
    "give it workers where the program makes it, if it takes them"
)

Refuses = Callable[[Any, Run, frozenset[str]], str | None]


def _never(value: Any, run: Run, objects: frozenset[str]) -> str | None:
    return None


def _only_switched_on(value: Any, run: Run, objects: frozenset[str]) -> str | None:
    return None if value else "the program asks for it itself, in its own code"


def _checkpointing(value: Any, run: Run, objects: frozenset[str]) -> str | None:
    if value and "blocks" not in objects and "transformers" not in objects:
        return "the model has no list of blocks to recompute"
    return None


def _fp16(value: Any, run: Run, objects: frozenset[str]) -> str | None:
    return "fp16 needs a gradient scaler, which the program does not have" if value and not run["fp16"] else None


def _loader(value: Any, run: Run, objects: frozenset[str]) -> str | None:
    return None if "loader" in objects else OTHER_LOADER if "other_loader" in objects else NO_LOADER


def _one_loader(value: Any, run: Run, objects: frozenset[str]) -> str | None:
    by_turns = "its loader is another one in each epoch, so that the batches of one are not the run's"
    return _loader(value, run, objects) or (by_turns if run["loaders_by_turns"] else None)


def _needs(kind: str, otherwise: str) -> Refuses:
    """Make the refusal of a program that makes no object of a `kind`."""
    return lambda value, run, objects: None if kind in objects else otherwise


def _only_off(why: str) -> Refuses:
    """Make the refusal of all that switches something on."""
    return lambda value, run, objects: why if value else None


_torch_optimizer = _needs("optimizer", "the program has no optimizer of PyTorch's")


def _optimizer(value: Any, run: Run, objects: frozenset[str]) -> str | None:
    if why := _torch_optimizer(value, run, objects):
        return why
    same = value in OPTIMIZER_IMPLEMENTATIONS and run["optim"] in OPTIMIZER_IMPLEMENTATIONS
    return None if same else "another optimizer is another line of the program"


ARGUMENT_REFUSALS: Mapping[str, Refuses] = {
    "gradient_checkpointing": _checkpointing,
    "bf16": _never,
    "fp16": _fp16,
    "torch_compile": _only_switched_on,
    "torch_compile_mode": _never,
    "torch_compile_backend": _never,
    "optim": _optimizer,
}
"""What speaks against a training argument's value where the program has no TrainingArguments."""

KEY_REFUSALS: Mapping[str, Refuses] = {
    "dataset.cached_batches": _one_loader,
    "dataset.trim_padding": _loader,
    "dataset.trim_constant_columns": _loader,
    "optimizer_kwargs.foreach": _torch_optimizer,
    "optimizer_kwargs.fused": _torch_optimizer,
    "model.attn_implementation": _needs("transformers", "the model is none of transformers'"),
    "model.memory_format": _needs("convolutions", "the model has no convolutions"),
    "model.experts_implementation": lambda value, run, objects: (
        None if run["model.experts_implementation"] else "the model has no experts of transformers'"
    ),
    "model.double_precision": _only_off("a model in double precision is another program"),
    "model.idle_gradients": _only_off("which weights have gradients is the program's own code"),
    "model.own_rule": _only_off("an optimizer with another rule is another program"),
    "model.torch_compile_dynamic": _never,
}
"""What speaks against a value of another section."""
