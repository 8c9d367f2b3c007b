"""What is really in effect in a trial, read from the live objects after a few steps, and not from the settings."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datasets
import torch
from transformers import Trainer
from transformers.modeling_layers import GradientCheckpointingLayer

from slowstep.settings.events import ARGUMENTS, is_rare, strategy
from slowstep.workloads import data, model

if TYPE_CHECKING:
    from slowstep.workloads.finetune import FineTune

EPOCH_IN_BLOCK = 200
"""Epochs of up to so many steps are measured whole where workers are at play."""

PLAIN_ARGUMENTS = (
    "gradient_accumulation_steps",
    "torch_empty_cache_steps",
    "save_only_model",
    "per_device_eval_batch_size",
    "logging_nan_inf_filter",
    "include_num_input_tokens_seen",
    "max_grad_norm",
)
"""Arguments that Trainer reads in each step or event, so that holding them is having effect."""

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""How configurations call the number of experts."""

SAMPLERS = {"LengthGroupedSampler": "group_by_length", "SequentialSampler": "sequential", "RandomSampler": "random"}
TRACKERS = {"TensorBoardCallback": "tensorboard", "MLflowCallback": "mlflow", "WandbCallback": "wandb"}


def observed(workload: FineTune) -> dict[str, Any]:
    """Facts by name; the expectations of the catalogue's levels are held against them."""
    trainer = workload.trainer
    return {
        "device": workload.device,
        **{name: getattr(trainer.args, name) for name in PLAIN_ARGUMENTS},
        **_data(workload),
        **_epoch(workload),
        **_events(workload),
        **_checkpointing(trainer),
        **_optimizer(trainer),
        **_numerics(workload),
        **_graph(trainer),
        **_adapter(trainer),
        **_sizes(trainer),
    }


def _data(w: FineTune) -> dict[str, Any]:
    loader = w.trainer.callback_handler.train_dataloader
    fetched = w.collate.fresh if isinstance(w.collate, data.Cached) else w.examples
    return {
        "per_device_train_batch_size": min(loader.total_batch_size, len(w.examples)),
        "dataloader_num_workers": loader.num_workers,
        "dataloader_prefetch_factor": loader.prefetch_factor,
        "dataloader_persistent_workers": loader.persistent_workers,
        "dataloader_pin_memory": loader.pin_memory and w.device != "cpu",
        "non_blocking": bool(getattr(loader, "_non_blocking", False)),
        "event_period": _period(w),
        "train_sampling_strategy": _sampling(loader),
        "cached_batches": w.settings.dataset.cached_batches if isinstance(w.collate, data.Cached) else 0,
        "tokenize": "on_the_fly" if isinstance(w.source, data.OnTheFly) else "once",
        "batched_fetching": bool(getattr(fetched, "__getitems__", None)),
        "storage": _storage(w.source, w.folder),
        "padding": _padding(w),
        "max_length": w.settings.dataset.max_length,
        "examples": len(w.examples),
    }


def _sampling(loader: Any) -> str | None:
    """By the class of the sampler, inside whatever accelerate put around it."""
    sampler = loader.batch_sampler
    while hasattr(sampler, "batch_sampler") or hasattr(sampler, "sampler"):
        sampler = getattr(sampler, "batch_sampler", None) or sampler.sampler
    kinds = [SAMPLERS[kind.__name__] for kind in type(sampler).__mro__ if kind.__name__ in SAMPLERS]
    return kinds[0] if kinds else None


def _epoch(w: FineTune) -> dict[str, int]:
    """Steps and positions of the job's epoch, of which the blocks see a small part; a trial's epoch is as long."""
    a, batches = w.trainer.args, len(w.trainer.callback_handler.train_dataloader)
    found = {"epoch_steps": math.ceil(batches / a.gradient_accumulation_steps)}
    if isinstance(w.collate, data.Cached):
        return found
    alike = _sampling(w.trainer.callback_handler.train_dataloader) == "group_by_length"
    longest = data.longest_of_alike if alike else data.longest_of
    seen = None if w.collate.length else data.lengths(w.source)
    length = w.collate.length if seen is None else longest(seen, a.per_device_train_batch_size)
    if length is not None:
        found["epoch_padded_tokens"] = round(min(len(w.examples), batches * a.per_device_train_batch_size) * length)
    return found


def _storage(source: Any, folder: Path) -> str:
    """Where the examples are read from: by the files that hold them, none of which means memory."""
    held = getattr(source, "raw", source)
    if isinstance(held, list):
        return "in_memory"
    if not isinstance(held, datasets.Dataset):
        return "a dataset of one's own"
    files = held.cache_files
    if not files:
        return "in_memory"
    return "local_copy" if all(Path(f["filename"]).is_relative_to(folder) for f in files) else "as_is"


def _padding(w: FineTune) -> str:
    """As the collator and the examples really are."""
    collate = w.collate.collate if isinstance(w.collate, data.Cached) else w.collate
    if isinstance(w.source, list):
        return "packing"
    return "max_length" if collate.length else "longest"


def _period(w: FineTune) -> int:
    """Steps after which the events that stay in a trial repeat together."""
    a = w.trainer.args
    every = [int(a.save_steps)] * (a.save_strategy != "no") + [int(a.eval_steps or 1)] * (a.eval_strategy != "no")
    steps = math.ceil(len(w.trainer.callback_handler.train_dataloader) / a.gradient_accumulation_steps)
    if a.dataloader_num_workers and 0 < steps <= EPOCH_IN_BLOCK:
        every.append(steps)  # workers start with each epoch, and whole epochs hold as many starts as the job's
    return math.lcm(*every)


def _events(w: FineTune) -> dict[str, Any]:
    """Intervals in steps, or the strategy where it is not by steps. Of a rare event, which is kept out of the trial's
    steps, it is the interval that its share of a block is reckoned with."""
    callbacks = [type(c).__name__ for c in w.trainer.callback_handler.callbacks]
    found = {
        "logging_steps": int(w.trainer.args.logging_steps),
        "report_to": sorted(TRACKERS[name] for name in callbacks if name in TRACKERS),
    }
    for event, name in ARGUMENTS.items():
        source = w.settings.training if is_rare(w.settings, event) else lambda key: getattr(w.trainer.args, key)
        how = strategy(w.settings, event)
        found[f"{name}_steps"] = source(f"{name}_steps") if how == "steps" else how
    return found


def _checkpointing(trainer: Trainer) -> dict[str, Any]:
    flagged = [m for m in trainer.model.modules() if getattr(m, "gradient_checkpointing", None) is not None]
    layers = [m for m in flagged if isinstance(m, GradientCheckpointingLayer)] or flagged
    on = [i for i, m in enumerate(layers) if m.gradient_checkpointing and m.training]
    asked = int((trainer.args.gradient_checkpointing_kwargs or {}).get("every_n_layers", 1))
    function = next((f for i in on if (f := getattr(layers[i], "_gradient_checkpointing_func", None))), None)
    return {
        "gradient_checkpointing": bool(on),
        "every_n_layers": _interval(on, len(layers), asked) if on else None,
        "use_reentrant": getattr(function, "keywords", {}).get("use_reentrant"),
        # transformers wraps torch's checkpoint in a function of its own if it offloads
        "offload": function is not None and function.func is not torch.utils.checkpoint.checkpoint,
    }


def _interval(on: list[int], layers: int, asked: int) -> int:
    """Layers from one that is computed again to the next; as was `asked` where only the first is, which any interval
    beyond the last layer does."""
    return on[1] - on[0] if len(on) > 1 else max(asked, layers)


def _optimizer(trainer: Trainer) -> dict[str, Any]:
    optimizer = getattr(trainer.optimizer, "optimizer", trainer.optimizer)
    numbers: Counter[int] = Counter()  # by bits; bitsandbytes keeps small states and embeddings in 32 of them
    for state in _states(optimizer):
        numbers[state.element_size() * 8] += state.numel()
    return {
        "optim": str(getattr(trainer.args.optim, "value", trainer.args.optim)),
        "optimizer": f"{type(optimizer).__module__.split('.')[0]}.{type(optimizer).__name__}",
        "fused": bool(optimizer.param_groups[0].get("fused")),
        "optimizer_state_bits": numbers.most_common(1)[0][0] if numbers else None,
        "optimizer_paged": any(getattr(v, "is_paged", False) for v in _states(optimizer)),
        "foreach": optimizer.param_groups[0].get("foreach"),
    }


def _states(optimizer: Any) -> list[torch.Tensor]:
    """The optimizer's state tensors, without the step counters."""
    values = (v for state in optimizer.state.values() for v in state.values())
    return [v for v in values if isinstance(v, torch.Tensor) and v.numel() > 1]


def _numerics(w: FineTune) -> dict[str, Any]:
    modules = list(w.trainer.model.modules())
    kinds = ("Linear4bit", "bitsandbytes")  # by name, since a run without bitsandbytes need not import it
    four_bit = next((m for m in modules if (type(m).__name__, type(m).__module__.split(".")[0]) == kinds), None)
    weight, dtype = getattr(four_bit, "weight", None), getattr(four_bit, "compute_dtype", None)
    return {
        "autocast": w.trainer.accelerator.mixed_precision,
        "weight_bits": model.weight_bits(w.trainer.model),
        # PyTorch refuses to tell by the older name once the newer was set
        "tf32": torch.backends.cuda.matmul.fp32_precision == "tf32" if w.device == "cuda" else None,
        "bnb_4bit_quant_type": getattr(weight, "quant_type", None),
        "bnb_4bit_use_double_quant": getattr(weight, "compress_statistics", None),
        "bnb_4bit_compute_dtype": str(dtype).removeprefix("torch.") if dtype else None,
        "dropout": _drops(w.trainer.model),
    }


def _drops(module: torch.nn.Module) -> bool:
    """Whether anything is left out at random: by a layer, or by a function that the configuration gives a rate."""
    config = module.config.get_text_config().to_dict()
    rates = [v for k, v in config.items() if k.endswith(("dropout", "pdrop")) and isinstance(v, int | float)]
    return any(rates) or any(isinstance(m, torch.nn.Dropout) and m.p > 0 for m in module.modules())


def _graph(trainer: Trainer) -> dict[str, Any]:
    compiled = isinstance(trainer.model_wrapped, torch._dynamo.eval_frame.OptimizedModule)
    plugin = trainer.accelerator.state.dynamo_plugin
    return {
        "attn_implementation": getattr(trainer.model.config, "_attn_implementation", None),
        "sdpa_backend": _sdpa_backend(),
        "compiled": compiled,
        "torch_compile_mode": plugin.mode if compiled else None,
        "torch_compile_dynamic": plugin.dynamic if compiled else None,
        "use_liger_kernel": any(_from_liger(m) for m in trainer.model.modules()),
    }


def _from_liger(module: torch.nn.Module) -> bool:
    """Liger puts classes of its own in place of modules, or functions of its own in place of their forward."""
    made = (type(module).__module__, getattr(module.forward, "__module__", ""))
    return any(name.startswith("liger_kernel") for name in made)


def _sdpa_backend() -> str | None:
    """The only kernel that attention may use; with several PyTorch chooses."""
    cuda = torch.backends.cuda
    enabled = {
        "math": cuda.math_sdp_enabled(),
        "flash": cuda.flash_sdp_enabled(),
        "efficient": cuda.mem_efficient_sdp_enabled(),
        "cudnn": cuda.cudnn_sdp_enabled(),
    }
    allowed = [name for name, on in enabled.items() if on]
    return allowed[0] if len(allowed) == 1 else None


def _adapter(trainer: Trainer) -> dict[str, Any]:
    """Of the layers that have one; None and empty where there is none."""
    adapted = {name: m for name, m in trainer.model.named_modules() if hasattr(m, "lora_A")}
    ranks = {a.out_features for m in adapted.values() for a in m.lora_A.values()}
    dropouts = {getattr(d, "p", 0.0) for m in adapted.values() for d in m.lora_dropout.values()}
    head = trainer.model.get_output_embeddings()
    plain = [
        name
        for name, m in trainer.model.named_modules()
        if isinstance(m, torch.nn.Linear) and m is not head and "lora_" not in name and not name.endswith("base_layer")
    ]
    return {
        "lora_r": max(ranks, default=None),
        "lora_dropout": max(dropouts, default=None),
        "lora_target_modules": sorted({name.rsplit(".", 1)[-1] for name in adapted}),
        "lora_all_linear": bool(adapted) and all(name in adapted for name in plain),
    }


def _sizes(trainer: Trainer) -> dict[str, int]:
    """What formulas of work and memory need to know about the model; nothing where it has no such sizes."""
    config = trainer.model.config.get_text_config()
    embedding = trainer.model.get_input_embeddings().weight
    if not hasattr(config, "num_hidden_layers") or not hasattr(config, "hidden_size"):
        return {}
    if any((getattr(config, name, None) or 0) > 1 for name in EXPERTS):
        return {}  # of a token's experts only some are computed, and the formulas count them all
    matmul = trained = 0
    for p in trainer.model.parameters():
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
