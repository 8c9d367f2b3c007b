"""Changes of how ranks exchange gradients: the arguments of DistributedDataParallel, its hook, and when it is called.

transformers, accelerate, Lightning and a loop of one's own all make the same object, so it is changed there.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakSet

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from slowstep_probe.changing import sharding
from slowstep_probe.changing.wanted import Wanted, position_of
from slowstep_probe.changing.zero import ENGINE, zero_facts
from slowstep_probe.late_imports import LateImports
from slowstep_probe.looks import class_names
from slowstep_probe.measured import OWN_EXCHANGE
from slowstep_probe.patches import Patches

HOOK, SYNC = "ddp.comm_hook", "ddp.sync_each_batch"
RANK_DATA = "ddp.rank_data"

SHARDS = {"BatchSamplerShard": "process_index", "IterableDatasetShard": "process_index"}
"""The classes of accelerate that give each rank its part of the data, with the argument that says which."""

NO_EXCHANGE = "none"
"""The hook that exchanges nothing. Ranks train apart with it, so it only shows what the exchange costs."""

LOW_RANK = 1
"""The rank of the factors that PowerSGD exchanges, as its paper proposes (Vogels et al. 2019, arXiv 1905.13727)."""

RENAMED = "forward_sync_buffers"
"""The argument of torch 2.13 that says what `broadcast_buffers` said before."""

DEFAULTS = {
    "bucket_cap_mb": 25,
    "broadcast_buffers": True,
    "find_unused_parameters": False,
    "gradient_as_bucket_view": False,
    "static_graph": False,
}
"""The values that DistributedDataParallel takes where it is given none."""

SHARDED = {
    ENGINE: "DeepSpeed",
    sharding.FSDP2: "FSDP2",
    sharding.FSDP1: "FSDP1",
}
"""Classes whose models are spread over ranks in parts, with the name of what they do."""

PLAIN = ("", "allreduce_hook", "builtincommhooktype.allreduce")
"""What DistributedDataParallel calls the exchange as it is by itself, in small letters."""

HOOKS = {"noop": "none", "powersgd": "powersgd", "bf16": "bf16", "fp16": "fp16"}
"""The names of exchanges, by parts of the names of the functions that make them."""


class DataParallel:
    """Changes each DistributedDataParallel where it is made.

    `micro_batches` are the backward passes of an optimizer step; 0 if that is not known.
    """

    def __init__(self, wanted: Wanted, micro_batches: int):
        self.wanted, self._micro_batches = wanted, micro_batches
        self._passes = 0
        """Backward passes since the last optimizer step."""
        self._wrapped: WeakSet[Any] = WeakSet()
        self._unexchanged = False
        """True if gradients were added up since they were last exchanged."""

    def attach(self, patches: Patches, late: LateImports) -> None:
        """Begin, if anything of it is wanted."""
        if not torch.distributed.is_available():
            return
        if self.wanted.values.get(RANK_DATA) == "swapped":
            distributed = importlib.import_module("torch.utils.data.distributed")
            patches.around(distributed.DistributedSampler, "__init__", self._drawing("num_replicas", "rank"))
            for kind, argument in SHARDS.items():
                late.on("accelerate.data_loader", partial(self._swap, patches, kind, argument))
        if not self.wanted.within("ddp"):
            return
        kind = torch.nn.parallel.DistributedDataParallel
        self._signature = inspect.signature(kind.__init__)
        patches.around(kind, "__init__", self._made)
        if HOOK in self.wanted:
            patches.around(kind, "register_comm_hook", self._hooked)
        if SYNC in self.wanted:
            patches.around(kind, "forward", self._forward)
            patches.after(torch.Tensor, "backward", self._passed)
            hooks = (
                register_optimizer_step_pre_hook(lambda *_: self._exchange()),
                register_optimizer_step_post_hook(lambda *_: self._stepped()),
            )
            patches.on_removal(lambda: [hook.remove() for hook in hooks])

    def _made(self, original: Callable[..., None], one: Any, *args: Any, **kwargs: Any) -> None:
        names = list(self._signature.parameters)[1:]
        bound = self._signature.bind_partial(one, *args, **kwargs)
        for name, value in self.wanted.within("ddp").items():
            argument = "forward_sync_buffers" if name == "broadcast_buffers" and RENAMED in names else name
            if argument not in names:
                continue
            before = bound.arguments.get(argument, bound.arguments.get(name))
            before = DEFAULTS.get(name) if before is None else before
            bound.arguments.pop(name, None)
            bound.arguments[argument] = value
            at = position_of(argument, names, args)
            self.wanted.note(f"ddp.{name}", "DistributedDataParallel", before, value, argument, at)
        original(*bound.args, **bound.kwargs)
        self._wrapped.add(one)
        if HOOK in self.wanted:
            state, hook = _hook(self.wanted[HOOK])
            if hook is not None:
                torch.nn.parallel.DistributedDataParallel.register_comm_hook.__wrapped__(one, state, hook)
            self.wanted.note(HOOK, "DistributedDataParallel.register_comm_hook", "allreduce", self.wanted[HOOK])

    def _swap(self, patches: Patches, kind: str, argument: str, module: Any) -> None:
        patches.around(getattr(module, kind), "__init__", self._drawing("num_processes", argument))

    def _drawing(self, of: str, which: str) -> Callable[..., None]:
        """Make what gives a rank the part of the data that is the next rank's."""

        def made(original: Callable[..., None], one: Any, *args: Any, **kwargs: Any) -> None:
            bound = inspect.signature(original).bind_partial(one, *args, **kwargs)
            number, size = bound.arguments.get(which), bound.arguments.get(of)
            number = torch.distributed.get_rank() if number is None else number
            size = torch.distributed.get_world_size() if size is None else size
            bound.arguments[which] = (number + 1) % size
            self.wanted.note_once(RANK_DATA, type(one).__name__, number, bound.arguments[which])
            original(*bound.args, **bound.kwargs)

        return made

    def _hooked(self, original: Callable[..., None], one: Any, *args: Any, **kwargs: Any) -> None:
        """Leave out the program's own hook: another one is wanted, and there can be only one."""

    def _forward(self, original: Callable[..., Any], one: Any, *args: Any, **kwargs: Any) -> Any:
        """Let gradients be exchanged after each micro-batch, or after the last one of a step alone."""
        each, before = self._micro_batches, one.require_backward_grad_sync
        if each > 1 and torch.is_grad_enabled():
            wanted = self.wanted[SYNC] or self._passes % each == each - 1
            if wanted != before and wanted == self.wanted[SYNC]:
                self.wanted.note_once(SYNC, "DistributedDataParallel.no_sync", before, wanted)
            one.require_backward_grad_sync = wanted
            self._unexchanged = not wanted
        return original(one, *args, **kwargs)

    def _exchange(self) -> None:
        """Exchange gradients before an optimizer takes them, where a step has fewer micro-batches than others.

        The last batches of an epoch are such a step. All ranks come to it alike.
        """
        if not self._unexchanged:
            return
        for one in self._wrapped:
            for gradient in [p.grad for p in one.parameters() if p.requires_grad and p.grad is not None]:
                torch.distributed.all_reduce(gradient, group=one.process_group)
                gradient /= torch.distributed.get_world_size(one.process_group)
        self._unexchanged = False

    def _passed(self, *_: Any, **__: Any) -> None:
        self._passes += 1

    def _stepped(self) -> None:
        self._passes = 0


def _hook(name: str) -> tuple[Any, Any]:
    """Return the state and the function of a hook; none for the exchange as it is by itself."""
    from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks, powerSGD_hook

    if name == "powersgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=LOW_RANK, start_powerSGD_iter=2)
        return state, powerSGD_hook.powerSGD_hook
    hooks = {
        NO_EXCHANGE: debugging_hooks.noop_hook,
        "bf16": default_hooks.bf16_compress_hook,
        "fp16": default_hooks.fp16_compress_hook,
    }
    return None, hooks.get(name)


class GradientExchange:
    """Observes how gradients are exchanged: by which objects, and after which of a step's micro-batches."""

    def __init__(self) -> None:
        self._made: WeakSet[Any] = WeakSet()
        self._passes = self._exchanges = 0

    def attach(self, patches: Patches) -> None:
        if torch.distributed.is_available():
            patches.look(torch.nn.parallel.DistributedDataParallel, "__init__", self._remember)
            patches.around(torch.Tensor, "backward", self._backward)

    def _remember(self, _: None, one: Any, *args: Any, **kwargs: Any) -> None:
        self._made.add(one)

    def _backward(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._passes += 1
        self._exchanges += any(one.require_backward_grad_sync for one in self._made)
        return original(*args, **kwargs)

    def facts(self, models: list[torch.nn.Module], loader: Any = None) -> dict[str, Any]:
        """Return what is known: `ddp.sync_each_batch` is False if there were passes without an exchange.

        `ddp.rank_data` says whether the rank trains on its own part of the data; it is absent where no part is given.
        """
        processes = world_size()
        found = parallel_facts(models) | {"world_size": processes or 1}
        if self._made and self._passes:
            found["ddp.sync_each_batch"] = self._exchanges == self._passes
        part = data_rank(loader)
        if processes and part is not None:
            found[RANK_DATA] = "own" if part == torch.distributed.get_rank() else "swapped"
        return found


def world_size() -> int:
    """Return the processes that exchange gradients with this one, itself included; 0 while it has met none."""
    met = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if met else 0


def data_rank(loader: Any) -> int | None:
    """Return the rank whose part of the data a loader draws, by what draws it; None where nothing gives parts."""
    inside = [getattr(loader, name, None) for name in ("batch_sampler", "sampler", "dataset")]
    while inside:
        one = inside.pop(0)
        for name in ("process_index", "rank"):
            if isinstance(number := getattr(one, name, None), int):
                return number
        inside += [below for name in ("batch_sampler", "sampler") if (below := getattr(one, name, None)) is not None]
    return None


def parallel_facts(models: list[torch.nn.Module]) -> dict[str, Any]:
    """Return how the models that are trained are spread over ranks, as the live objects say; {} where they are not.

    Names are those of PyTorch's own classes. `ddp.…` are the arguments in effect.
    """
    parts = [part for model in models for part in model.modules()]
    wrapped = [part for part in parts if isinstance(part, torch.nn.parallel.DistributedDataParallel)]
    kinds = {name for part in parts for name in class_names(part) if name in SHARDED}
    if wrapped:
        return {"parallelism": "DDP", **_ddp_facts(wrapped[0])}
    if kinds:
        return {"parallelism": SHARDED[sorted(kinds)[0]], **sharding.sharding_facts(parts), **zero_facts(parts)}
    return {"parallelism": "none"}


def _ddp_facts(one: Any) -> dict[str, Any]:
    told = one._get_ddp_logging_data() if hasattr(one, "_get_ddp_logging_data") else {}
    hook = str(told.get("comm_hook") or "").lower()
    return {
        "ddp.bucket_cap_mb": one.bucket_bytes_cap / 2**20,
        "ddp.gradient_as_bucket_view": bool(one.gradient_as_bucket_view),
        "ddp.static_graph": bool(one.static_graph),
        "ddp.find_unused_parameters": bool(one.find_unused_parameters),
        "ddp.broadcast_buffers": bool(getattr(one, RENAMED, getattr(one, "broadcast_buffers", False))),
        "ddp.comm_hook": _exchange(hook),
    }


def _exchange(hook: str) -> str:
    """Return the name of the exchange that a hook makes, by the name of its function."""
    if hook in PLAIN:
        return "allreduce"
    return next((name for part, name in HOOKS.items() if part in hook), OWN_EXCHANGE)
