"""Changes of how weights are spread over ranks, by FullyShardedDataParallel (FSDP1) or fully_shard (FSDP2).

transformers, accelerate, Lightning and a loop of one's own all call these, so their arguments are changed there. What
FSDP2 fetches ahead is no argument, and is set on the modules once they are known.
"""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch

from slowstep_probe.changing.wanted import Wanted, position_of
from slowstep_probe.late_imports import LateImports
from slowstep_probe.looks import class_names
from slowstep_probe.patches import Patches

SECTION = "fsdp"

RESHARD, AHEAD = "fsdp.reshard_after_forward", "fsdp.forward_prefetch"

FSDP1, FSDP2 = "FullyShardedDataParallel", "FSDPModule"
"""The classes of modules whose weights are spread over ranks."""

ARGUMENTS = ("sharding_strategy", "backward_prefetch", "forward_prefetch", "limit_all_gathers")
"""The arguments of FullyShardedDataParallel that can be changed. The first two are members of an enumeration."""

ENUMERATIONS = {"sharding_strategy": "ShardingStrategy", "backward_prefetch": "BackwardPrefetch"}

NONE = "none"
"""The word for no prefetching."""


class Sharding:
    """Changes each module where its weights are spread."""

    def __init__(self, wanted: Wanted):
        self.wanted = wanted

    def attach(self, patches: Patches, late: LateImports) -> None:
        """Begin, if anything of it is wanted."""
        if not self.wanted.within(SECTION) or not torch.distributed.is_available():
            return
        if RESHARD in self.wanted:
            late.on("torch.distributed.fsdp", lambda it: patches.everywhere(it, "fully_shard", self._sharded))
        late.on(
            "torch.distributed.fsdp.fully_sharded_data_parallel",
            lambda it: patches.around(getattr(it, FSDP1), "__init__", self._wrapped),
        )

    def settle(self, models: Sequence[torch.nn.Module]) -> None:
        """Have FSDP2 fetch each module's weights while the one before it computes."""
        if not self.wanted.values.get(AHEAD):
            return
        for model in models:
            spread = [part for part in model.modules() if FSDP2 in class_names(part)]
            for part, following in pairwise(spread[1:]):  # the first holds all others
                part.set_modules_to_forward_prefetch([following])
            if len(spread) > 2:
                self.wanted.note_once(AHEAD, "FSDPModule.set_modules_to_forward_prefetch", False, True)

    def _sharded(self, original: Callable[..., Any], module: Any, *args: Any, **kwargs: Any) -> Any:
        argument = RESHARD.rpartition(".")[2]
        before = kwargs.get(argument)
        kwargs[argument] = self.wanted[RESHARD]
        self.wanted.note(RESHARD, "torch.distributed.fsdp.fully_shard", before, kwargs[argument], argument)
        return original(module, *args, **kwargs)

    def _wrapped(self, original: Callable[..., None], one: Any, *args: Any, **kwargs: Any) -> None:
        signature = inspect.signature(original)
        names, bound = list(signature.parameters)[1:], signature.bind_partial(one, *args, **kwargs)
        for name in ARGUMENTS:
            key = f"{SECTION}.{name}"
            if key not in self.wanted or name not in names:
                continue
            before = bound.arguments.get(name, signature.parameters[name].default)
            value = _member(name, self.wanted[key])
            bound.arguments[name] = value
            if before is not value:
                at = position_of(name, names, args)
                self.wanted.note(key, FSDP1, _plain(before), _plain(value), name, at)
        original(*bound.args, **bound.kwargs)


def _member(name: str, value: Any) -> Any:
    """Return an argument's value as FullyShardedDataParallel takes it: a member of an enumeration, by its name."""
    if name not in ENUMERATIONS or value in (None, NONE):
        return None if value == NONE else value
    kinds = importlib.import_module("torch.distributed.fsdp")
    return getattr(kinds, ENUMERATIONS[name])[value]


def _plain(value: Any) -> Any:
    return value.name if isinstance(value, enum.Enum) else value


def sharding_facts(parts: Iterable[Any]) -> dict[str, Any]:
    """Return how the weights of these modules are spread, as the live objects say; {} where they are not."""
    parts = list(parts)
    wrapped = [part for part in parts if FSDP1 in class_names(part)]
    if wrapped:
        last = wrapped[-1]  # the first of several is the root, which may be another than the rest
        found = {name: _plain(getattr(last, name, None)) for name in ARGUMENTS}
        found["sharding_strategy"] = found["sharding_strategy"] or "FULL_SHARD"
        found["backward_prefetch"] = found["backward_prefetch"] or NONE
        return {f"{SECTION}.{name}": value for name, value in found.items()}
    states = [part._get_fsdp_state() for part in parts if hasattr(part, "_get_fsdp_state")]
    groups = [group for state in states for group in _groups_of(state)]
    if not groups:
        return {}
    meshes = [getattr(group, "post_forward_mesh_info", None) for group in groups[1:] or groups]
    ahead = any(getattr(state, "_states_to_forward_prefetch", ()) for state in states)
    return {"reshard_after_forward": any(mesh is not None for mesh in meshes), AHEAD: ahead}


def _groups_of(state: Any) -> list[Any]:
    """Return the groups of weights that FSDP2 fetches together for a module; from torch 2.13 on it may have several."""
    several = getattr(state, "_fsdp_param_groups", None)
    if several is not None:
        return list(several)
    one = getattr(state, "_fsdp_param_group", None)
    return [] if one is None else [one]
