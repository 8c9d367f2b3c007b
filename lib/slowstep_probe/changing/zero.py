"""Changes of DeepSpeed's ZeRO: `zero_optimization` of the configuration that `deepspeed.initialize` is given.

transformers, accelerate, Lightning and a loop of one's own all call it. The configuration is changed in a copy, whether
it is a mapping, a file, or a file that the command names.
"""

from __future__ import annotations

import copy
import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.late_imports import LateImports
from slowstep_probe.looks import class_names
from slowstep_probe.patches import Patches

SECTION = "zero_optimization"

OFFLOAD, NOWHERE = "offload_optimizer", "none"
"""The key of a configuration that names the device to which the optimizer's state is moved, and that of no device."""

ENGINE = "DeepSpeedEngine"

ASKED = {
    "stage": "zero_optimization_stage",
    "overlap_comm": "zero_overlap_comm",
    "reduce_bucket_size": "zero_reduce_bucket_size",
    "allgather_bucket_size": "zero_allgather_bucket_size",
    "stage3_prefetch_bucket_size": "zero_prefetch_bucket_size",
}
"""The values of a configuration, each with the method of an engine that tells it."""


class Zero:
    """Changes each configuration where an engine is made of it."""

    def __init__(self, wanted: Wanted):
        self.wanted = wanted

    def attach(self, patches: Patches, late: LateImports) -> None:
        """Begin, if anything of it is wanted."""
        if self.wanted.within(SECTION):
            late.on("deepspeed", lambda it: patches.everywhere(it, "initialize", self._initialized))

    def _initialized(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(original).bind_partial(*args, **kwargs)
        given, options = bound.arguments, bound.arguments.get("args")
        file = getattr(options, "deepspeed_config", None)
        known = given.get("config") or given.get("config_params") or file
        changed = self._changed(known)
        if changed is None:
            return original(*args, **kwargs)
        if file is not None:
            given["args"] = copy.copy(options)
            given["args"].deepspeed_config = None  # it takes one from either place, and none from both
        given.pop("config_params", None)
        given["config"] = changed
        return original(*bound.args, **bound.kwargs)

    def _changed(self, known: Any) -> dict[str, Any] | None:
        """Return a changed copy of a configuration; None if it can't be read, or holds nothing that can be changed."""
        configuration = read(known)
        part = None if configuration is None else configuration.setdefault(SECTION, {})
        if not isinstance(part, dict):
            return None
        where = f"{os.path.basename(known)}: " if isinstance(known, str) else "deepspeed.initialize, "
        for name, value in self.wanted.within(SECTION).items():
            before = part.get(name)
            if name == OFFLOAD:
                before, part[name] = _device(before), {"device": value}
            else:
                part[name] = value
            self.wanted.note(f"{SECTION}.{name}", f"{where}{SECTION}.{name}", before, value)
        return configuration


def read(known: Any) -> dict[str, Any] | None:
    """Return a copy of a configuration: of a mapping, or of what a JSON file holds. None if it is neither."""
    if isinstance(known, Mapping):
        return copy.deepcopy(dict(known))
    try:
        with open(known, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, TypeError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _device(offload: Any) -> str:
    """Return the device that a part of a configuration, or of an engine, moves something to."""
    device = offload.get("device") if isinstance(offload, Mapping) else getattr(offload, "device", None)
    return str(getattr(device, "value", device) or NOWHERE)


def zero_facts(parts: Iterable[Any]) -> dict[str, Any]:
    """Return the values of ZeRO that are in effect in the first engine among these modules; {} without one.

    Sizes of buckets are in elements, as in the configuration.
    """
    engine = next((part for part in parts if ENGINE in class_names(part)), None)
    found = {name: _asked(engine, of) for name, of in ASKED.items()} if engine is not None else {}
    told = {f"{SECTION}.{name}": value for name, value in found.items() if value is not None}
    if told:
        told[f"{SECTION}.{OFFLOAD}"] = _device(_asked(engine, "zero_offload_optimizer"))
    return told


def _asked(engine: Any, method: str) -> Any:
    asked = getattr(engine, method, None)
    return asked() if callable(asked) else None
