"""A program's calls that build a model of transformers, answered from what an earlier trial built.

LoRA and QLoRA never change the weights that they start from, and yet each launch of a program reads and quantises them
anew: a minute and more for seven billion parameters. The first trial writes what `from_pretrained` or `from_config`
returned into a file (`slowstep_probe.weights.arena`), and every trial, that one too, trains over the pages of the file.

A call is answered so only where that is known to be the same: by a class of transformers' own, with arguments that
tell all of themselves, in a process that holds the whole model, and where what is read equals what was written in every
bit. In doubt the program builds its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from slowstep_probe.late_imports import LateImports
from slowstep_probe.own_time import time
from slowstep_probe.patches import Patches
from slowstep_probe.trial.program_hooks import hooks
from slowstep_probe.weights import arena, calls

BUILDERS = ("from_pretrained", "_from_config")
"""The class methods of transformers' models in which all ways of building one end, but the constructor."""

PART = "base"
"""The name of the part of a trial's start-up that was done by another one."""

MOST = 4
"""The most models that are kept; a program that builds another one each time has some of chance in it."""

KINDS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
"""The classes of tensors that are known to be whole; those of `QUANTISING` are, too."""

PACKAGES = ("torch.", "transformers.", "bitsandbytes.")
"""The beginnings of the modules of classes that leave nothing in the process but what `adopt` restores."""

ATTENTION_KINDS = (None, "eager", "sdpa", "flex_attention")
"""The kinds of attention that need nothing which a model's constructor would have to fetch."""

QUANTISING = "bitsandbytes."
"""The beginning of the modules of quantised tensors that hold all of their state."""


class BuiltOnce:
    """Keeps models in `folder` that took so many `seconds` to build, and gives them to the trials that come next."""

    def __init__(self, folder: Path, seconds: float):
        self.folder, self.seconds = folder, seconds

    def attach(self, patches: Patches, late: LateImports) -> None:
        late.on("transformers.modeling_utils", lambda it: watch(it.PreTrainedModel, self._called, patches))

    def _called(self, original: Callable[..., Any], kind: type, *args: Any, **kwargs: Any) -> Any:
        key = calls.identity(kind, args, kwargs)
        if key is None:
            return original(kind, *args, **kwargs)
        kept, given = self.folder / key, calls.configurations(args, kwargs)
        if arena.structure_of(kept).exists():
            with contextlib.suppress(Exception):  # what can't be read is built
                return _read(kept, given)
        return self._built(kept, given, lambda: original(kind, *args, **kwargs))

    def _built(self, kept: Path, given: list[Any], build: Callable[[], Any]) -> Any:
        """Return what a call builds, as it is read from the file that it was written to, if it is worth keeping."""
        began = time.perf_counter()
        model = build()
        seconds = time.perf_counter() - began
        if seconds < self.seconds or not self._may_be_kept(model):
            return model
        states = arena.draws()
        with self._alone() as alone:
            taken = arena.structure_of(kept).exists()  # by a rank that was faster, and trains over its pages
            if not alone or taken or len(list(self.folder.glob(f"*.{arena.STRUCTURE}"))) >= MOST:
                return model
            try:
                arena.write((model, seconds, [vars(one) for one in given], states), kept, given)
                pages = arena.mapped(kept)
                same = _read(kept, given, pages, arena.written_of(kept))
                # both beside each other would count as memory that the program takes
                if not _equal(model, same, lambda: pages.madvise(mmap.MADV_DONTNEED)):
                    raise ValueError("it is not what was written")
                os.replace(arena.written_of(kept), arena.structure_of(kept))  # now others may read it
            except Exception:  # it holds what can't be pickled, or the disk is full
                arena.written_of(kept).unlink(missing_ok=True)
                kept.unlink(missing_ok=True)
                return model
            finally:
                arena.go_on_from(states)
        hooks.beforehand.pop(PART, None)  # this trial has built it itself
        return same

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        """Give whether no other process writes now. Nobody waits: ranks may wait for each other within such a call."""
        with (self.folder / "writing").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True

    def _may_be_kept(self, model: Any) -> bool:
        """Return whether a model is whole, plain and on the CPU, and the disk has room for it.

        On a device a second copy would stand beside it while they are compared.
        """
        if not isinstance(model, torch.nn.Module):
            return False
        if not all(type(module).__module__.startswith(PACKAGES) for module in model.modules()):
            return False  # of others it is not known what they leave in the process
        attention = getattr(getattr(model, "config", None), "_attn_implementation", None)
        if attention not in ATTENTION_KINDS or any(t.device.type != "cpu" for t in arena.tensors_of(model)):
            return False
        if any(t.is_meta or not t.is_contiguous() or not _is_known(type(t)) for t in arena.tensors_of(model)):
            return False
        attributes = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        if any("forward" in vars(m) or any(getattr(m, name) for name in attributes) for m in model.modules()):
            return False
        return arena.fits(model, self.folder)


def watch(kind: type, function: Callable[..., Any], patches: Patches) -> None:
    """Have `function(original, cls, …)` called where a model is built by a class method of `kind`, or of a subclass.

    A model that is made of others is built by one call: those that it makes itself are left alone.
    """
    building = False

    def outermost(original: Callable[..., Any], cls: type, *args: Any, **kwargs: Any) -> Any:
        nonlocal building
        if building:
            return original(cls, *args, **kwargs)
        building = True
        try:
            return function(original, cls, *args, **kwargs)
        finally:
            building = False

    for name in BUILDERS:
        if isinstance(vars(kind).get(name), classmethod):
            patches.class_method(kind, name, outermost)


def adopt(model: torch.nn.Module) -> None:
    """Leave in this process what the constructors of a model of transformers leave there."""
    known = getattr(sys.modules.get("transformers.modeling_utils"), "_CAN_RECORD_REGISTRY", None)
    for module in model.modules() if known is not None else ():
        if hasattr(module, "_can_record_outputs"):
            known[module] = module._can_record_outputs


def _read(
    kept: Path, given: list[Any], pages: mmap.mmap | None = None, structure: Path | None = None
) -> torch.nn.Module:
    """Return a kept model, with its reader's configurations and random numbers as the call would have left them."""
    model, seconds, changed, states = arena.read(kept, given, pages, structure)
    adopt(model)
    for one, left in zip(given, changed, strict=True):
        vars(one).update(left)
    arena.go_on_from(states)
    hooks.beforehand[PART] = hooks.beforehand.get(PART, 0.0) + seconds
    return model


def _is_known(kind: type) -> bool:
    return kind in KINDS or kind.__module__.startswith(QUANTISING)


def _equal(one: torch.nn.Module, other: torch.nn.Module, seen: Callable[[], Any]) -> bool:
    """Return whether two models have the same modules, and the same tensors in every bit.

    `seen` is called after each tensor.
    """
    kinds = [[(name, type(m), m.training) for name, m in model.named_modules()] for model in (one, other)]
    tensors = [[*m.named_parameters(), *m.named_buffers()] for m in (one, other)]
    if kinds[0] != kinds[1]:
        return False
    for (name, x), (same_name, y) in zip(*tensors, strict=True):
        if name != same_name or _about(x) != _about(y) or not torch.equal(_bits(x), _bits(y)):
            return False
        seen()
    return True


def _about(tensor: torch.Tensor) -> tuple[Any, ...]:
    return type(tensor), tensor.shape, tensor.dtype, tensor.device, tensor.requires_grad


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bits of a tensor, of which even those of nan equal themselves."""
    return tensor.detach().as_subclass(torch.Tensor).reshape(-1).view(torch.uint8)
