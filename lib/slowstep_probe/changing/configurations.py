"""Changes of configuration objects whose fields are their arguments: TrainingArguments, LoraConfig, and subclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from slowstep_probe.changing.wanted import Made, Wanted
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches

OF_TRIAL = {"push_to_hub": False, "hub_model_id": None}
"""What a trial does not do, whatever the program wants: it uploads nothing."""

ENDLESS = {"max_steps": 10**9}
"""Steps that no trial reaches."""


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
        self._steps: dict[int, int] = {}
        """The `max_steps` that TrainingArguments had before they were changed, by their identity."""
        self._own_steps = -1
        """The `max_steps` of the TrainingArguments made last, before they were changed."""

    def attach(self, patches: Patches, late: LateImports) -> None:
        late.on("transformers.trainer", lambda it: patches.after(it.Trainer, "__init__", self._trainer_made))
        # a subclass that has a `__post_init__` of its own looks at its fields before it calls its parent's
        of_trainer, of_peft = ({"__post_init__": partial(self._made, name)} for name in ("training_arguments", "peft"))
        late.on("transformers.training_args", lambda it: patches.of_subclasses(it.TrainingArguments, of_trainer))
        if self.wanted.within("peft"):
            late.on("peft.tuners.lora.config", lambda it: patches.of_subclasses(it.LoraConfig, of_peft))

    def own_steps(self, arguments: Any) -> int:
        """Return the `max_steps` that TrainingArguments, or those that they are a copy of, were given; -1 for none."""
        return self._steps.get(id(arguments), self._own_steps)

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

    def _made(self, section: str, original: Callable[..., None], one: Any, *args: Any, **kwargs: Any) -> None:
        """Set the fields of a configuration that is being made."""
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

    def _set(self, one: Any, section: str) -> None:
        for name, value in self.wanted.within(section).items():
            if hasattr(one, name):
                before = getattr(one, name)
                setattr(one, name, value)
                slot = _slot(type(one), name)
                self.wanted.note(f"{section}.{name}", type(one).__name__, before, value, argument=name, slot=slot)
        if section == "training_arguments":
            steps = getattr(one, "max_steps", -1)
            self._own_steps = self._own_steps if steps == ENDLESS["max_steps"] else steps  # made of changed ones
            self._steps[id(one)] = self._own_steps
            for name, value in self.ends.items():
                if hasattr(one, name):
                    setattr(one, name, value)


def _slot(kind: Any, name: str) -> int | None:
    """Return the place among the arguments of a dataclass that a field has without its name; None if it has none."""
    by_place = [each.name for each in dataclasses.fields(kind) if each.init and not each.kw_only]
    return by_place.index(name) if name in by_place else None
