"""Effects that are seen in calls: whether activations are computed again, and in which arithmetic; and facts of models.

No object of the program tells the former.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.utils.checkpoint

from slowstep_probe.changing.double_precision import is_double
from slowstep_probe.changing.flags import process_facts, sdpa_backend, tf32
from slowstep_probe.changing.idle_gradients import IdleGradients
from slowstep_probe.changing.models import configurations_of, experts_of
from slowstep_probe.changing.own_rule import OneByOne
from slowstep_probe.changing.padding import PaddedColumns
from slowstep_probe.changing.thrown_gradients import ThrownGradients
from slowstep_probe.looks import looking, seen
from slowstep_probe.observed import adapter_facts
from slowstep_probe.patches import Patches

NAMES_OF_DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16"}


class Effects:
    """Notes calls while it is attached. `models` returns the modules that are known to be called."""

    def __init__(self, models: Callable[[], Iterable[torch.nn.Module]] = list) -> None:
        self.checkpointed = False
        """True if any stretch of a forward pass was left to be computed again."""
        self.autocast: str | None = None
        """The arithmetic of the autocast that was entered last with gradients on; None if none was."""
        self.anomaly = False
        """True if the backward pass looked for values that are not finite, at any time."""
        self._padding = PaddedColumns()
        self._idle, self._thrown = IdleGradients(models), ThrownGradients(models)
        self._one_by_one = OneByOne()

    def attach(self, patches: Patches) -> None:
        patches.everywhere(torch.utils.checkpoint, "checkpoint", self._checkpointed)
        patches.around(torch.amp.autocast_mode.autocast, "__enter__", self._entered)
        patches.look(torch, "set_anomaly_enabled", self._anomaly_set)
        self._idle.attach(patches)
        self._thrown.attach(patches)
        self._one_by_one.attach(patches)

    def attach_outside(self, patches: Patches) -> None:
        """Begin to look at batches as the program gets them, after all changes of them were attached."""
        self._padding.attach(patches)

    def facts(self, models: list[Any], loader: Any) -> dict[str, Any]:
        """Return facts by the names that factors expect. The `loader` is that of training; None if it has none."""
        of_models: dict[str, Callable[[list[Any]], Any]] = {
            "dropout": lambda them: any(_drops(module) for model in them for module in model.modules()),
            "tf32": lambda _: tf32(),
            "sdpa_backend": lambda _: sdpa_backend(),
            "memory_format": memory_format,
            "double_precision": lambda them: any(map(is_double, them)),
            "experts_implementation": _experts,
        }
        found = seen(of_models, models) | {
            "gradient_checkpointing": self.checkpointed,
            "autocast": self.autocast or "no",
            "idle_gradients": self._idle.seen or bool(looking(lambda: self._thrown.seen)()),
            "own_rule": self._one_by_one.seen,
        }
        found |= looking(self._padding.facts)(loader) or {}
        found |= looking(process_facts)() or {}
        found["detect_anomaly"] = self.anomaly or torch.is_anomaly_enabled()
        for model in models:
            found |= looking(adapter_facts)(model) or {}
        if attention := looking(_attention)(models):
            found["attn_implementation"] = attention
        return found

    def _checkpointed(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.checkpointed:  # a count would change with each call, and a compiled graph with it
            self.checkpointed = True
        return original(*args, **kwargs)

    def _anomaly_set(self, *_: Any, **__: Any) -> None:
        self.anomaly = self.anomaly or torch.is_anomaly_enabled()

    def _entered(self, original: Any, context: Any) -> Any:
        if context._enabled and torch.is_grad_enabled():
            self.autocast = NAMES_OF_DTYPES.get(context.fast_dtype, str(context.fast_dtype).removeprefix("torch."))
        return original(context)


def _drops(module: torch.nn.Module) -> bool:
    """Return whether a module drops activations at random, by its own rate or by one that its configuration names."""
    rates = [getattr(module, "p", 0.0)] if isinstance(module, torch.nn.modules.dropout._DropoutNd) else []
    config = getattr(getattr(module, "config", None), "__dict__", {})
    rates += [value for name, value in config.items() if "drop" in name]
    return any(isinstance(rate, float) and rate > 0 for rate in rates)


def memory_format(models: list[Any]) -> str | None:
    """Return the order in which the weights of convolutions lie in memory; None without convolutions."""
    weights = [m.weight for model in models for m in model.modules() if isinstance(m, torch.nn.Conv2d)]
    last = [w.is_contiguous(memory_format=torch.channels_last) and not w.is_contiguous() for w in weights]
    return ("channels_last" if any(last) else "contiguous") if weights else None


def _attention(models: list[Any]) -> str | None:
    configurations = [c for model in models for c in configurations_of(model)]
    return next((way for c in configurations if (way := getattr(c, "_attn_implementation", None))), None)


def _experts(models: list[Any]) -> str | None:
    ways = [way for model in models for c in configurations_of(model) if (way := experts_of(c))]
    return ways[0] if ways else None
