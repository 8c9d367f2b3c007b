"""What a survey tells of the training that it saw: its steps, its loader, its model."""

from __future__ import annotations

import gc
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

import torch

from slowstep_probe import places
from slowstep_probe.changing.trainer_events import eval_samples
from slowstep_probe.looks import looking, with_size
from slowstep_probe.measured import Block, Work
from slowstep_probe.observed import batch_size_of
from slowstep_probe.probe.probe import Probe
from slowstep_probe.survey.survey import Survey

NEARLY_ALL = 0.9
"""The share of a module's weights from which on one that it holds, and that is called beside it, is the model."""


def seen_training(
    probe: Probe, survey: Survey, block: Block, trainer: Any, facts: dict[str, Any], updates: int, collecting: float
) -> dict[str, Any]:
    """Return what was seen, as plain data.

    `block` holds the steps that were timed, `trainer` is transformers' Trainer if the program has one, `facts` are what
    the live objects tell, `updates` counts the optimizer steps in one step, and `collecting` is the seconds that
    Python's garbage collector took in the block.
    """
    found = {
        "step_seconds": block.step_seconds,
        "phases": block.phases,
        "work": asdict(_work(probe, block)),
        "passes": probe.steps.passes,
        "batches": probe.steps.batches,
        "updates": updates,
        "device": probe.device,
        "losses": probe.steps.losses.first[:3],
        "facts": facts,
        "garbage_collection_share": collecting / (sum(block.step_seconds) or 1.0),
        "arguments": survey.arguments_of(trainer),
        "eval_samples": eval_samples(trainer) if trainer is not None else None,
        "modules": places.libraries(),
        "files": places.own_files(),
    }
    found |= _of_loader(probe, survey)
    updated = {id(weight) for weight in survey.trained()} or _with_gradients(probe.models)
    model = looking(_holder)(probe.models, updated) or _model_of(probe.models)
    if model is None:
        return found
    found["other_models"] = [_of_model(one, updated) for one in probe.models if _is_beside(one, model, updated)]
    return found | {"model": _of_model(model, updated if _have_some(probe.models, updated) else None)}


def _work(probe: Probe, block: Block) -> Work:
    """Return the work of a block. Where it became clear late whose samples count, it is told by their batches' size."""
    if not probe.fetched.epoch_of_longest:
        return block.work
    return Work(samples=block.steps * probe.steps.batches * (batch_size_of(probe.loader) or 0))


def _with_gradients(models: Sequence[torch.nn.Module]) -> set[int]:
    """Return the weights that have gradients, by identity: what is trained without an optimizer of PyTorch's."""
    return {id(weight) for model in models for weight in model.parameters() if weight.grad is not None}


def _have_some(models: Sequence[torch.nn.Module], updated: Collection[int]) -> bool:
    """Return whether any of the weights that are updated are those of models. DeepSpeed updates copies of them."""
    return any(id(weight) in updated for model in models for weight in model.parameters())


def _is_beside(module: torch.nn.Module, model: torch.nn.Module, updated: Collection[int]) -> bool:
    """Return whether a module is trained beside the model: it is no part of it, and no wrapper of its weights."""
    own = {id(weight) for weight in module.parameters()}
    return bool(own & set(updated)) and not own <= {id(weight) for weight in model.parameters()}


def _model_of(called: Sequence[torch.nn.Module]) -> torch.nn.Module | None:
    """Return the model among the modules that are called outermost, in their order: that with the most weights.

    A loss that is called after it may hold the model, and a few weights of its own.
    """
    sizes = [sum(weight.numel() for weight in with_size(one.parameters())) for one in called]
    tensors = [sum(1 for _ in one.parameters()) for one in called]  # those of a lazy module have no size
    at = max(range(len(called)), key=lambda i: (sizes[i], tensors[i]), default=None)
    if at is None:
        return None
    held = {id(one) for one in called[at].modules()}
    before = (i for i in range(at) if id(called[i]) in held and sizes[i] >= NEARLY_ALL * sizes[at] > 0)
    return called[next(before, at)]


def _holder(called: Sequence[torch.nn.Module], updated: Collection[int]) -> torch.nn.Module | None:
    """Return the smallest module that holds all trained modules among those `called` outermost.

    A module is trained if an optimizer updates one of its weights: `updated` holds their identities. A model may be
    trained by methods of its own, which call its parts, as those of Lightning and of embeddings of graphs often are.
    None where one of the called modules holds all the others, or nothing holds them all. A target network that follows
    the model is none of its parts, though its weights could have gradients.
    """
    trained = {id(one) for one in called if any(id(weight) in updated for weight in one.parameters())}
    if not trained or any(trained <= _parts(one) for one in called):
        return None
    every = (one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module))
    modules = [one for one in every if "_modules" in vars(one)]  # others are half made
    holders = [one for one in modules if trained <= _parts(one)]
    return min(holders, key=lambda one: len(_parts(one)), default=None)


def _parts(module: torch.nn.Module) -> set[int]:
    return {id(part) for part in module.modules()}


def _of_loader(probe: Probe, survey: Survey) -> dict[str, Any]:
    """Return what is known of the loader that training draws from, and of its data set."""
    if probe.loader is None:
        return {"loader": None, "feeding": [], "fed_by_loader": bool(probe.fetched.training)}
    return {
        "loader": survey.number_of(probe.loader),
        "repeated_by_workers": survey.data_sets.is_repeated(probe.loader),
        "feeding": survey.feeding(probe.fetched.feeding),
        "unlike_batch_sizes": survey.unlike_batch_sizes(probe.fetched.feeding),
        "epoch_of_longest": probe.fetched.epoch_of_longest,
        "iterable_dataset": isinstance(probe.loader.dataset, torch.utils.data.IterableDataset),
    } | (survey.by_turns(probe.fetched.successors) | survey.data_sets.facts(probe.loader))


def _of_model(model: torch.nn.Module, updated: Collection[int] | None) -> dict[str, Any]:
    """Return the sizes of a model, and what kinds of parts it has. `updated` are the weights that are, if known."""
    weights, parts = with_size(model.parameters()), list(model.modules())
    sizes = [(p.numel(), p.requires_grad, str(p.dtype).removeprefix("torch.")) for p in weights]
    kinds: dict[str, int] = {}
    for count, _, kind in sizes:
        kinds[kind] = kinds.get(kind, 0) + count
    scripted = isinstance(model, torch.jit.ScriptModule)
    name = model.original_name if scripted else type(model).__qualname__
    return {
        "name": f"{type(model).__module__}.{name}",
        "parameters": sum(count for count, _, _ in sizes),
        "trained": sum(count for count, trained, _ in sizes if trained),
        "updated": None if updated is None else sum(p.numel() for p in weights if id(p) in updated),
        "dtypes": kinds,
        "attention": any(hasattr(part, "set_attn_implementation") for part in parts),
        "blocks": _has(parts, torch.nn.ModuleList),
        "batch_norm": any(
            isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.track_running_stats for part in parts
        ),
        "convolutions": _has(parts, torch.nn.Conv2d),
    }


def _has(parts: Sequence[torch.nn.Module], kind: type[torch.nn.Module]) -> bool:
    return any(isinstance(part, kind) for part in parts)
