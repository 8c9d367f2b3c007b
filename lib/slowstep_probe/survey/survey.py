"""The survey of a program: what it constructs, where in its code, and with which values."""

from __future__ import annotations

import argparse
import inspect
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch
import torch.utils.checkpoint
import torch.utils.data
import torch.utils.data.dataloader as loading

from slowstep_probe import uploads
from slowstep_probe.by_identity import identity
from slowstep_probe.changing.flags import FLAGS, Flag
from slowstep_probe.changing.lightning import TRAINERS
from slowstep_probe.changing.sharding import FSDP1
from slowstep_probe.late_imports import LateImports
from slowstep_probe.looks import length_of, looking, seen, weights_of, with_size
from slowstep_probe.observed import batch_size_of, sampler_of
from slowstep_probe.own_time import time
from slowstep_probe.parsed_words import as_written, of_the_command
from slowstep_probe.patches import Patches
from slowstep_probe.places import CodePlace, here
from slowstep_probe.plain import shown
from slowstep_probe.processes import others
from slowstep_probe.ranks.launchers import Launchers
from slowstep_probe.secret import masked, without_secrets
from slowstep_probe.survey.data_sets import DataSets
from slowstep_probe.survey.outside import Outside
from slowstep_probe.weights.built_once import watch

MOST = 200
"""The most objects that are noted of a kind; a program that makes more makes them in a loop."""

AGAIN = "loader_again"
"""The kind of a loader that a library makes of one of the program's."""

LOADER: dict[str, Callable[[Any], Any]] = {
    "dataset": lambda loader: _name(type(loader.dataset)),
    "examples": lambda loader: length_of(loader.dataset),
    "batch_size": batch_size_of,
    "num_workers": lambda loader: loader.num_workers,
    "prefetch_factor": lambda loader: loader.prefetch_factor,
    "persistent_workers": lambda loader: loader.persistent_workers,
    "pin_memory": lambda loader: loader.pin_memory,
    "sampler": lambda loader: _name(type(sampler_of(loader))),
    "collate_fn": lambda loader: _name(loader.collate_fn),
}
"""What is looked for in a loader, by the names under which it is told."""

AUTOCAST: dict[str, Callable[[Any], Any]] = {
    "device": lambda one: one.device,
    "dtype": lambda one: one.fast_dtype,
    "enabled": lambda one: one._enabled,
}


@dataclass
class Constructed:
    """An object that the program constructed, or a call that it made."""

    kind: str
    """What it is for: 'loader', 'optimizer', 'arguments', …"""
    name: str
    """The class or function: `torch.utils.data.DataLoader`."""
    place: CodePlace
    values: dict[str, Any] = field(default_factory=dict)
    """What was given or is in effect, as plain values."""
    times: int = 1
    """How often it was constructed at this place."""


class Survey:
    """Notes what a program constructs while it is attached, and takes over the launchers that it calls."""

    def __init__(self, launchers: Launchers) -> None:
        self._launchers = launchers
        self.constructed: list[Constructed] = []
        self.options: dict[str, Any] = {}
        """The options that the program's own parser knows, with the values it found."""
        self._outside = Outside(lambda words: self.note("started", words, {}))
        self._loaders: dict[int, Constructed] = {}
        """The loaders that were noted, by their `identity`."""
        self._remade: dict[int, Constructed] = {}
        """The loaders that a library made of one of the program's, by their `identity`, with that one."""
        self.data_sets = DataSets(self.trained)
        self._optimizers: list[tuple[Constructed, weakref.ref[Any]]] = []
        """The optimizers that were noted. What they update may have no size before the first forward pass."""
        self._arguments: list[tuple[Any, dict[str, Any]]] = []
        """The TrainingArguments that were made last, each with all its values."""
        self.weights_seconds = 0.0
        """The seconds in which models of transformers were built."""
        self._patches, self._late = Patches(), LateImports()

    def attach(self) -> None:
        """Begin. It lasts until the process ends."""
        patches = self._patches
        self.data_sets.attach(patches)
        patches.look(torch.utils.data.DataLoader, "__init__", self._made("loader", partial(seen, LOADER)))
        patches.look(loading._BaseDataLoaderIter, "__init__", self._iterator_made)
        patches.look(torch.optim.Optimizer, "__init__", self._made("optimizer", lambda one: one.defaults))
        scheduler = torch.optim.lr_scheduler.LRScheduler
        patches.look(scheduler, "__init__", self._made("scheduler"))
        patches.look(torch.amp.GradScaler, "__init__", self._made("scaler"))
        patches.look(torch, "compile", self._called("compile", "torch.compile"))
        patches.look(torch.amp.autocast_mode.autocast, "__init__", self._made("autocast", partial(seen, AUTOCAST)))
        checkpointed = self._called("checkpointing", "torch.utils.checkpoint.checkpoint")
        patches.look_everywhere(torch.utils.checkpoint, "checkpoint", checkpointed)
        for key, flag in FLAGS.items():
            for owner, name in flag.setters:
                patches.look(owner, name, self._sets(flag, self._called("flag", flag.call, key)))
        if torch.distributed.is_available():
            patches.look(torch.nn.parallel.DistributedDataParallel, "__init__", self._made("ddp"))
            patches.look(torch.distributed, "init_process_group", self._called("processes", "init_process_group"))
        patches.look(argparse.ArgumentParser, "parse_known_args", self._parsed)
        self._launchers.taken_over = self.options.clear  # those were the launcher's own
        self._launchers.process_started = lambda function: self.note("process", function, {})
        self._launchers.attach(patches, self._late)
        uploads.attach(patches, self._late)
        others.attach(patches)
        self._on("transformers.training_args", self._training_arguments)
        self._on("transformers.trainer", self._class("Trainer", "trainer"))
        self._on("transformers.modeling_utils", lambda it: watch(it.PreTrainedModel, self._model_built, patches))
        self._on("deepspeed", self._function("initialize", "engine"))
        self._on("torch.distributed.fsdp", self._function("fully_shard", "fsdp"))
        self._on("torch.distributed.fsdp.fully_sharded_data_parallel", self._class(FSDP1, "fsdp"))
        self._on("peft.tuners.lora.config", self._class("LoraConfig", "peft"))
        self._on("accelerate.accelerator", self._class("Accelerator", "accelerator"))
        for module in TRAINERS:
            self._on(module, self._class("Trainer", "lightning"))
        self._outside.attach(patches)

    def _sets(self, flag: Flag, told: Callable[..., None]) -> Callable[..., None]:
        def sets(result: Any, *args: Any, **kwargs: Any) -> None:
            if flag.about(*args, **kwargs):
                told(result, *args, **kwargs)

        return sets

    def _on(self, module: str, action: Callable[[Any], None]) -> None:
        """Have a module looked at once it is imported. One of another version may lack what is looked for."""
        self._late.on(module, looking(action))

    def number_of(self, loader: Any) -> int | None:
        """Return the number of a loader among those that were noted; None if it was not."""
        noted = self._remade.get(identity(loader)) or self._loaders.get(identity(loader))
        loaders = [one for one in self.constructed if one.kind == "loader"]
        return next((i for i, one in enumerate(loaders) if one is noted), None)

    def feeding(self, loaders: Sequence[int]) -> list[str]:
        """Return `file:line` of each place where a loader over the same data as one of `loaders` was made.

        These are the identities of loaders, which may be gone.
        """
        of_loader = self.data_sets.of_loader
        data = {of_loader.get(loader) for loader in loaders} - {None}
        places = [noted.place for loader, noted in self._loaders.items() if of_loader.get(loader) in data]
        return list(dict.fromkeys(str(place) for place in places if place.file))

    def unlike_batch_sizes(self, loaders: Sequence[int]) -> list[int]:
        """Return the sizes of the batches of `loaders`, told by their identities, where they are not all alike."""
        noted = (self._loaders.get(loader) for loader in loaders)
        sizes = {one.values["batch_size"] for one in noted if one and isinstance(one.values.get("batch_size"), int)}
        return sorted(sizes) if len(sizes) > 1 else []

    def by_turns(self, successors: Sequence[tuple[int, int]]) -> dict[str, bool]:
        """Return whether training goes over several loaders, one after the other, and over some of several lines.

        They are told by their identities. A program makes its loader anew for each epoch, has one for each of several
        clients, or trains on one data set after the other.
        """
        noted = [[self._loaders.get(loader) for loader in pair] for pair in successors]
        places = [(one.place, other.place) for one, other in noted if one and other]
        places = [(one, other) for one, other in places if one.file and other.file]
        return {
            "loaders_by_turns": bool(places),
            "loaders_of_several_lines": any(one != other for one, other in places),
        }

    def trained(self) -> Iterator[torch.Tensor]:
        """Yield the parameters that optimizers update."""
        for _, of in self._optimizers:
            if (optimizer := of()) is not None and hasattr(optimizer, "param_groups"):
                yield from weights_of(optimizer)

    def _iterator_made(self, _: None, iterator: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        """Note a loader of another class, which has PyTorch's iterator go over it: where that is made."""
        if not isinstance(loader, torch.utils.data.DataLoader):
            told = {name: getattr(loader, name, None) for name in ("batch_size", "num_workers")}
            values = {name: value for name, value in told.items() if isinstance(value, int)}
            self.note("other_loader", _name(type(loader)), values)

    def arguments_of(self, trainer: Any) -> dict[str, Any]:
        """Return all values of the TrainingArguments that a Trainer holds, else of those that were made last.

        A library may make some that train nothing, to know the defaults.
        """
        last = [values for _, values in self._arguments]
        held = [values for one, values in self._arguments if one is getattr(trainer, "args", None)]
        return (held or last or [{}])[-1]

    def told(self) -> dict[str, Any]:
        """Return all that was noted, as plain data."""
        self._count_parameters()
        return {
            "constructed": [asdict(one) for one in self.constructed],
            "options": self.options,
            **self._outside.told(),
            "threads": torch.get_num_threads(),
            "weights_seconds": self.weights_seconds,
        }

    def _count_parameters(self) -> None:
        """Tell how many parameters optimizers update, where those that were made at one place are alike."""
        sizes: dict[int, set[int | None]] = {}
        for noted, ref in self._optimizers:
            if (optimizer := ref()) is not None:
                sizes.setdefault(id(noted), set()).add(looking(_size)(optimizer))
        for noted, _ in self._optimizers:
            known = sizes.get(id(noted), set()) - {None}
            if len(known) == 1:
                noted.values["parameters"] = next(iter(known))

    # -- what is noted --

    def note(self, kind: str, name: str, values: Mapping[str, Any], making: object = None) -> Constructed | None:
        """Note an object or a call, at the nearest place of the user's code; None if there are too many of its kind.

        `making` is the object, where it is being made.
        """
        place = here(making)
        plain = {key: shown(value) for key, value in without_secrets(values).items()}
        for one in self.constructed:
            if (one.kind, one.name, one.place, one.values) == (kind, name, place, plain):
                one.times += 1
                return one
        if sum(one.kind == kind for one in self.constructed) >= MOST:
            return None
        self.constructed.append(Constructed(kind, name, place, plain))
        return self.constructed[-1]

    def _made(self, kind: str, values: Callable[[Any], Mapping[str, Any]] = lambda _: {}) -> Callable[..., None]:
        """Make what notes the objects of a class, each with its values."""

        def made(_: None, one: Any, *args: Any, **kwargs: Any) -> None:
            told = looking(values)(one) or {}
            first = self._made_by_the_program(one, told) if kind == "loader" else None
            noted = self.note(AGAIN if first else kind, _name(type(one)), told, one)
            if noted is None:
                return
            if kind == "loader":
                self._loaders[identity(one)] = noted
                if first:
                    self._remade[identity(one)] = first
            elif kind == "optimizer":
                self._optimizers.append((noted, weakref.ref(one)))

        return made

    def _made_by_the_program(self, loader: Any, values: Mapping[str, Any]) -> Constructed | None:
        """Return the loader of which a library makes another one, as accelerate does of each that it prepares.

        It goes over the same data in the same batches, and the program has made it itself.
        """
        self.data_sets.note(loader)
        data, of_loader = identity(loader.dataset), self.data_sets.of_loader
        if not here(loader).through:
            return None
        alike = [
            noted
            for other, noted in self._loaders.items()
            if of_loader.get(other) == data and noted.kind == "loader" and noted.place.file and not noted.place.through
        ]
        same = ("batch_size", "num_workers")
        return next((one for one in reversed(alike) if all(one.values.get(k) == values.get(k) for k in same)), None)

    def _called(self, kind: str, name: str, key: str = "") -> Callable[..., None]:
        """Make what notes the calls of a function; `key` is the canonical key that it sets, if it sets one."""

        def called(_: Any, *args: Any, **kwargs: Any) -> None:
            if key and (args[:1] == (False,) or threading.current_thread() is not threading.main_thread()):
                return  # libraries switch off what nobody has switched on, and have threads of their own
            plain = [a for a in args if isinstance(a, (int, float, str, bool))]
            self.note(kind, name, dict(enumerate(map(str, plain))) | kwargs | ({"sets": key} if key else {}))

        return called

    def _function(self, name: str, kind: str) -> Callable[[Any], None]:
        """Make what notes the calls of a function of a module, without their arguments."""

        def noted(module: Any) -> None:
            full = f"{module.__name__}.{name}"
            self._patches.look(module, name, lambda *_, **__: self.note(kind, full, {}))

        return noted

    def _class(self, name: str, kind: str) -> Callable[[Any], None]:
        def noted(module: Any) -> None:
            owner = getattr(module, name, None)
            if owner is None:
                return
            signature = inspect.signature(owner.__init__)

            def made(_: None, one: Any, *args: Any, **kwargs: Any) -> None:
                given = signature.bind_partial(one, *args, **kwargs).arguments
                values = {k: v for k, v in given.items() if isinstance(v, (int, float, str, bool, list, tuple))}
                self.note(kind, _name(type(one)), values, one)

            self._patches.look(owner, "__init__", made)

        return noted

    def _training_arguments(self, module: Any) -> None:
        """Note TrainingArguments and all its subclasses, with the values that differ from the defaults."""
        owner = module.TrainingArguments

        def made(_: None, one: Any, *args: Any, **kwargs: Any) -> None:
            fields = getattr(type(one), "__dataclass_fields__", {})
            given = {n: getattr(one, n, None) for n, f in fields.items() if f.init}
            self._arguments = [
                *self._arguments[-MOST:],
                (one, {n: shown(value) for n, value in without_secrets(given).items()}),
            ]
            values = {n: value for n, value in given.items() if _differs(value, fields[n].default)}
            self.note("arguments", _name(type(one)), values)

        self._patches.look(owner, "__post_init__", made)

    def _model_built(self, original: Any, kind: type, *args: Any, **kwargs: Any) -> Any:
        """Time a call that builds a model."""
        began = time.monotonic()
        try:
            return original(kind, *args, **kwargs)
        finally:
            self.weights_seconds += time.monotonic() - began

    def _parsed(self, result: Any, parser: argparse.ArgumentParser, args: Any = None, *_: Any, **__: Any) -> None:
        if not of_the_command(args):
            return
        space = result[0]
        for action in parser._actions:
            if action.option_strings and hasattr(space, action.dest):
                option, value = as_written(action, getattr(space, action.dest))
                if masked(option, value) == value:
                    self.options[option] = shown(value)


def _size(optimizer: Any) -> int:
    return sum(weight.numel() for weight in with_size(weights_of(optimizer)))


def _name(of: Any) -> str:
    """Return the full name of a class or a function: `torch.optim.adamw.AdamW`."""
    of = of if hasattr(of, "__qualname__") else type(of)
    return f"{getattr(of, '__module__', '')}.{of.__qualname__}".lstrip(".")


def _differs(value: Any, default: Any) -> bool:
    try:
        return bool(value != default)
    except Exception:
        return True
