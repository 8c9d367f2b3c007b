"""Facts about what a trial really trains with, read from the live objects that the probe met while it trained.

Nothing here knows the settings, so that no fact can be an echo of what was asked for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.utils.data.dataloader as loading

from slowstep_probe.looks import class_names, length_of, looking, with_size
from slowstep_probe.measured import WHY_NOT
from slowstep_probe.probe.graphs import graph_facts, without_graphs
from slowstep_probe.probe.probe import Probe

SAMPLERS = {"LengthGroupedSampler": "group_by_length", "SequentialSampler": "sequential", "RandomSampler": "random"}
"""The orders of examples, by the classes of samplers."""

PAGED_FROM = 100_000
"""The fewest values of a state that bitsandbytes pages (`Optimizer8bit.get_state_buffer`)."""


def observed(probe: Probe) -> dict[str, Any]:
    """Return facts by name. Facts about an object that the training does not have are left out."""
    found: dict[str, Any] = {"gradient_accumulation_steps": probe.steps.accumulated(probe.loader is not None)}
    if probe.device is not None:
        found["device"] = probe.device
    if probe.loader is not None:
        found |= looking(_loader_facts)(probe.loader, probe) or {}
    if given := probe.inputs.of_a_sample():
        found["numbers_of_sample"] = given
    if probe.optimizer is not None:
        found |= looking(optimizer_facts)(probe.optimizer) or {}
    if probe.models or probe.compiled:  # a loss that is called beside the model is compiled or not as well
        found |= looking(graph_facts)(*probe.models, functions=probe.compiled) or {}
        found["model_weights"] = looking(_weights)(probe.models)
    if found.get("compiled"):
        found |= looking(without_graphs)() or {}
    return found


def _weights(models: Sequence[torch.nn.Module]) -> int:
    """Return the numbers that all weights of the models hold together, on this rank."""
    each = {id(part): part for model in models for part in model.parameters()}
    return sum(part.numel() for part in with_size(each.values()))


def _loader_facts(loader: Any, probe: Probe) -> dict[str, Any]:
    """Return facts about the loader: its workers, the order and the size of its batches, and an epoch's steps."""
    found = {
        "dataloader_num_workers": loader.num_workers,
        "dataloader_prefetch_factor": loader.prefetch_factor,
        "dataloader_persistent_workers": loader.persistent_workers,
        "dataloader_pin_memory": bool(loader.pin_memory) and probe.device != "cpu",
        "non_blocking": bool(getattr(loader, "_non_blocking", False)),
        "train_sampling_strategy": sampling(loader),
    }
    batch, examples = batch_size_of(loader), length_of(loader.dataset)
    drawn = length_of(sampler_of(loader))
    if batch:
        found["per_device_train_batch_size"] = batch if examples is None else min(batch, examples)
        if type(draws := draws_batches(loader)) is not loading.BatchSampler:
            found["batches_drawn_by"] = type(draws).__name__
    if probe.fetched.together > 1:
        found["loaders_of_step"] = probe.fetched.together
    if (batches := length_of(loader)) is not None:
        found["epoch_steps"] = math.ceil(batches / max(1, probe.steps.batches))
    if examples is not None:  # of which a sampler may draw some, or some again
        found["examples"] = examples if drawn is None or loader.batch_sampler is None else drawn
    return found


def sampling(loader: Any) -> str | None:
    """Return the order of examples, by the class of the sampler inside what accelerate put around it, or None."""
    if loader.batch_sampler is None:
        return None
    kinds = [SAMPLERS[name] for name in class_names(sampler_of(loader)) if name in SAMPLERS]
    return kinds[0] if kinds else None


def sampler_of(loader: Any) -> Any:
    """Return what draws a loader's examples, inside of what makes batches and of what accelerate puts around it."""
    sampler = draws_batches(loader)
    while hasattr(sampler, "batch_sampler") or hasattr(sampler, "sampler"):
        inner = getattr(sampler, "batch_sampler", None)
        sampler = inner if inner is not None else sampler.sampler
    return sampler


def batch_size_of(loader: Any) -> int | None:
    """Return the examples of a batch, by the loader or by what draws its batches; None if neither says."""
    return loader.batch_size or getattr(draws_batches(loader), "batch_size", None)


def draws_batches(loader: Any) -> Any:
    """Return what draws a loader's batches, inside of what accelerate puts around it to give each process its own."""
    draws = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    while getattr(draws, "batch_sampler", None) is not None:
        draws = draws.batch_sampler
    return draws


def optimizer_facts(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return facts about the optimizer: its class, and how its states are kept."""
    numbers: Counter[int] = Counter()  # by bits; bitsandbytes keeps small states and embeddings in 32 of them
    kept = [state for state in optimizer.state.values() if isinstance(state, Mapping)]  # a program may keep more there
    states = [v for state in kept for v in state.values()]
    states = [v for v in states if isinstance(v, torch.Tensor) and v.numel() > 1]  # without the step counters
    for state in states:
        numbers[state.element_size() * 8] += state.numel()
    group = optimizer.param_groups[0]
    return {
        "optimizer": f"{type(optimizer).__module__.split('.')[0]}.{type(optimizer).__name__}",
        "optimizer_package": type(optimizer).__module__.split(".")[0],
        "fused": bool(group.get("fused")),
        "optimizer_state_bits": numbers.most_common(1)[0][0] if numbers else None,
        **_paging(optimizer, states),
        "foreach": group.get("foreach"),
    }


def _paging(optimizer: torch.optim.Optimizer, states: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Return whether a state is paged: lies in the host's memory, from which the device takes what it needs.

    If a paged optimizer pages nothing, since all its states on a device are small as those of most adapters, the reason
    stands beside it.
    """
    paged = any(getattr(state, "is_paged", False) for state in states)
    largest = max((state.numel() for state in states if state.device.type != "cpu"), default=PAGED_FROM)
    if paged or not getattr(optimizer, "is_paged", False) or largest >= PAGED_FROM:
        return {"optimizer_paged": paged}
    why = f"bitsandbytes pages states of {PAGED_FROM:,} values and more, and the largest has {largest:,}"
    return {"optimizer_paged": paged, f"{WHY_NOT}optimizer_paged": why}


def adapter_facts(module: torch.nn.Module) -> dict[str, Any]:
    """Return facts about the layers that have an adapter of peft's LoRA; {} if none has."""
    adapted = {n: m for n, m in module.named_modules() if isinstance(getattr(m, "lora_A", None), torch.nn.ModuleDict)}
    if not adapted:
        return {}
    head = module.get_output_embeddings() if hasattr(module, "get_output_embeddings") else None
    plain = [
        name
        for name, m in module.named_modules()
        if isinstance(m, torch.nn.Linear) and m is not head and "lora_" not in name and not name.endswith("base_layer")
    ]
    parts = [a for m in adapted.values() for a in m.lora_A.values()]
    ranks = [getattr(a, "out_features", getattr(a, "out_channels", None)) for a in parts]
    rates = [getattr(d, "p", 0.0) for m in adapted.values() for d in getattr(m, "lora_dropout", {}).values()]
    return {
        "lora_r": max((rank for rank in ranks if rank is not None), default=None),
        "lora_dropout": max(rates, default=None),
        "lora_target_modules": sorted({name.rsplit(".", 1)[-1] for name in adapted}),
        "lora_all_linear": all(name in adapted for name in plain),
        "use_dora": any(any(getattr(m, "use_dora", {}).values()) for m in adapted.values()),
    }
