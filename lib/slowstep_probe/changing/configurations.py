"""Changes of configuration objects whose fields are their arguments: TrainingArguments, LoraConfig, and subclasses."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from slowstep_probe.changing.wanted import Made, Wanted
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches
from slowstep_probe.ranks.rank import Rank

OF_TRIAL = {"push_to_hub": False, "hub_model_id": None}
"""What a trial does not do, whatever the program wants: it uploads nothing."""

ENDLESS = {"max_steps": 10**9}
"""Steps that no trial reaches."""


LIGHTNING = ("lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer")
"""The modules that hold Lightning's Trainer."""

WITHOUT_END = {"max_epochs": -1, "max_time": None} | ENDLESS
"""Training without end, for Lightning's Trainer. Schedules ask it for the number of steps, which has to be finite."""


class LightningEnds:
    """Lets Lightning's Trainer train without end, since it counts its epochs and steps itself.

    Where this process is one of several ranks, the trainer is given as many nodes, and devices on each, as there are
    ranks: it compares their product with the number of processes.
    """

    def __init__(self, rank: Rank | None = None):
        several = {"devices": rank.local_size, "num_nodes": rank.size // rank.local_size} if rank else {}
        self._given = WITHOUT_END | several

    def attach(self, patches: Patches, late: LateImports) -> None:
        """Begin."""
        for name in LIGHTNING:
            late.on(name, lambda module: patches.around(module.Trainer, "__init__", self._made))

    def _made(self, original: Callable[..., None], trainer: Any, *args: Any, **kwargs: Any) -> None:
        original(trainer, *args, **kwargs | self._given)


class Configurations:
    """Sets fields right before a configuration object looks at them itself (`__post_init__`), once an object."""

    def __init__(self, wanted: Wanted, ends: Mapping[str, Any]):
        self.wanted, self.ends = wanted, ends
        self.trainer: Any = None
        """transformers' Trainer that was made last; None if there is none. TrainingArguments alone do nothing."""
        self._done: dict[int, Any] = {}
        """Objects that were changed, by identity; they are kept, so that no other takes their number."""
        self._noted: dict[int, list[Made]] = {}
        """What was noted of TrainingArguments, by their identity."""
        self._failed: dict[int, Exception] = {}
        """Why TrainingArguments could not be made with the changes, by their identity."""
        self._holding: list[Any] = []
        """The TrainingArguments that some Trainer holds."""

    def attach(self, patches: Patches, late: LateImports) -> None:
        """Begin."""
        late.on("transformers.trainer", lambda it: patches.after(it.Trainer, "__init__", self._trainer_made))
        late.on("transformers.training_args", lambda it: self._watch(it.TrainingArguments, "training_arguments"))
        if self.wanted.within("peft"):
            late.on("peft.tuners.lora.config", lambda it: self._watch(it.LoraConfig, "peft"))

    def _trainer_made(self, _: None, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """Note the Trainer, and that only the arguments of Trainers were changed to some effect.

        Libraries make others that train nothing, to know the defaults.
        """
        self.trainer = trainer
        self._holding.append(trainer.args)
        if failed := self._failed.get(id(trainer.args)):
            raise failed
        if id(trainer.args) in self._done:
            held = {id(one) for one in self._holding}
            idle = [id(made) for number, every in self._noted.items() if number not in held for made in every]
            known = {id(made) for made in self.wanted.made}
            back = [made for number in held for made in self._noted.get(number, []) if id(made) not in known]
            self.wanted.made[:] = [made for made in self.wanted.made if id(made) not in idle] + back

    def _watch(self, base: type, section: str) -> None:
        """Wrap the `__post_init__` of a class, of its subclasses, and of those that are yet to come.

        A subclass that has one of its own looks at its fields before it calls its parent's.
        """
        for kind in [base, *_descendants(base)]:
            self._wrap(kind, section)
        born_before = base.__init_subclass__

        def born(cls: type, **kwargs: Any) -> None:
            born_before(**kwargs)
            self._wrap(cls, section)

        base.__init_subclass__ = classmethod(born)  # type: ignore[assignment,method-assign]

    def _wrap(self, kind: type, section: str) -> None:
        original = vars(kind).get("__post_init__")
        if original is None:
            return

        @functools.wraps(original)
        def post_init(one: Any, *args: Any, **kwargs: Any) -> None:
            if id(one) in self._done:
                original(one, *args, **kwargs)
                return
            self._done[id(one)] = one
            before, noted = dict(vars(one)), len(self.wanted.made)
            self._set(one, section)
            if section != "training_arguments":
                original(one, *args, **kwargs)
                return
            self._noted[id(one)] = self.wanted.made[noted:]
            try:
                original(one, *args, **kwargs)
            except Exception as error:  # it matters only if these are what a Trainer gets
                vars(one).clear()
                vars(one).update(before)
                original(one, *args, **kwargs)
                self._failed[id(one)] = error

        kind.__post_init__ = post_init  # type: ignore[attr-defined]

    def _set(self, one: Any, section: str) -> None:
        for name, value in self.wanted.within(section).items():
            if hasattr(one, name):
                before = getattr(one, name)
                setattr(one, name, value)
                slot = _slot(type(one), name)
                self.wanted.note(f"{section}.{name}", type(one).__name__, before, value, argument=name, slot=slot)
        if section == "training_arguments":
            for name, value in self.ends.items():
                if hasattr(one, name):
                    setattr(one, name, value)


def _slot(kind: Any, name: str) -> int | None:
    """Return the place among the arguments of a dataclass that a field has without its name; None if it has none."""
    by_place = [each.name for each in dataclasses.fields(kind) if each.init and not each.kw_only]
    return by_place.index(name) if name in by_place else None


def _descendants(kind: type) -> list[type]:
    return [each for child in kind.__subclasses__() for each in (child, *_descendants(child))]
