"""Changes of how an optimizer of PyTorch goes over its parameters: one by one, over lists, or in one kernel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakSet

import torch

from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.patches import Patches

OPTIM, FOREACH, FUSED = "training_arguments.optim", "optimizer_kwargs.foreach", "optimizer_kwargs.fused"

WAYS = {"adamw_torch_fused": {"fused": True, "foreach": None}, "adamw_torch": {"fused": None}}
"""The keywords of an optimizer, by the names that TrainingArguments has for its ways."""


def note_made(patches: Patches, made: WeakSet[torch.optim.Optimizer]) -> None:
    """Put each optimizer that the program makes from now on among those `made`."""
    patches.look(torch.optim.Optimizer, "__init__", lambda _, one, *args, **kwargs: made.add(one))


def states_of(optimizer: torch.optim.Optimizer) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the parameters of which an optimizer keeps a state, each with that. A program may keep more there."""
    yield from ((weight, state) for weight, state in optimizer.state.items() if isinstance(state, dict))


class OptimizerArguments:
    """Changes the arguments with which PyTorch's optimizers are made. The class stays as it is."""

    def __init__(self, wanted: Wanted):
        self.wanted = wanted
        self._key = next((key for key in (FUSED, FOREACH) if wanted.values.get(key) is not None), OPTIM)
        self._keywords = dict(WAYS.get(wanted.values.get(OPTIM, ""), {}))
        if self._key == FOREACH:
            self._keywords = {"foreach": wanted[FOREACH], "fused": False if wanted[FOREACH] else None}
        elif self._key == FUSED:
            self._keywords = {"fused": wanted[FUSED], "foreach": None}

    def attach(self, patches: Patches) -> None:
        if not self._keywords:
            return
        for kind in {one for one in vars(torch.optim).values() if isinstance(one, type)}:
            if issubclass(kind, torch.optim.Optimizer) and "__init__" in vars(kind):
                signature = inspect.signature(kind.__init__)
                if any(name in signature.parameters for name in self._keywords):
                    patches.around(kind, "__init__", self._making(kind, signature))

    def _making(self, kind: type, signature: inspect.Signature) -> Callable[..., None]:
        def made(original: Callable[..., None], optimizer: Any, *args: Any, **kwargs: Any) -> None:
            bound = signature.bind_partial(optimizer, *args, **kwargs)
            for keyword, value in self._keywords.items():
                if keyword in signature.parameters:
                    before = bound.arguments.get(keyword, signature.parameters[keyword].default)
                    bound.arguments[keyword] = value
                    if before or value:
                        own = f"optimizer_kwargs.{keyword}"
                        key = own if own in self.wanted.values else self._key
                        self.wanted.note_made(key, kind, optimizer, before, value, keyword, args)
            original(*bound.args, **bound.kwargs)

        return made
