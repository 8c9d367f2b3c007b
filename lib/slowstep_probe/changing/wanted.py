"""The changes that are wanted of a program, by canonical key, and those that were made, with their places."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slowstep_probe.places import CodePlace, here
from slowstep_probe.plain import shown


@dataclass(frozen=True)
class Made:
    """A change that was made."""

    key: str
    """The canonical key: `training_arguments.dataloader_num_workers`."""
    name: str
    """What was changed: `torch.utils.data.DataLoader`."""
    before: Any
    after: Any
    place: CodePlace
    """The line of the user's code from which it was made or called."""
    argument: str = ""
    """The argument that was changed, if it was one: `num_workers`."""
    position: int | None = None
    """The argument's place among those that were given without their names, from 0; None if it was not."""
    slot: int | None = None
    """The place that the argument would have without its name, if it has one and it is not known how it was given."""
    option: str = ""
    """The option of the command that sets it, if its parser has one."""
    option_value: Any = None
    """The value that the option is given: a text; True or False for an option without a value, which is there or
    not."""


class Wanted:
    """Wanted changes. A key may be asked for by several interceptors: each makes the change where it has a place."""

    def __init__(self, values: Mapping[str, Any]):
        self.values = dict(values)
        self.made: list[Made] = []

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def within(self, section: str) -> dict[str, Any]:
        """Return the wanted values of a section, by the last part of their keys."""
        begin = section + "."
        return {key[len(begin) :]: value for key, value in self.values.items() if key.startswith(begin)}

    def note(
        self,
        key: str,
        name: str,
        before: Any,
        after: Any,
        argument: str = "",
        position: int | None = None,
        slot: int | None = None,
        place: CodePlace | None = None,
    ) -> None:
        """Note that a change was made, at the nearest place of the user's code; nothing if it changed nothing."""
        if before is not after and before != after:
            at = place or here()
            self.made.append(Made(key, name, shown(before), shown(after), at, argument, position, slot))

    def note_made(
        self, key: str, kind: type, making: object, before: Any, after: Any, argument: str, args: Sequence[Any]
    ) -> None:
        """Note that an argument of `kind.__init__`, given `args`, was changed for an object that is being made.

        Its own class may be a subclass whose `__init__` takes the argument, or hands on what it takes: then the change
        belongs to the call of that class. Else it can only be made where that class calls `kind`.
        """
        own = type(making)
        names = list(inspect.signature(own.__init__).parameters.values())[1:]
        name, at = public_name(own), here(making)
        if own.__init__ is kind.__init__:
            position = position_of(argument, [one.name for one in names], args)
            self.note(key, name, before, after, argument, position, place=at)
        elif any(one.name == argument or one.kind is one.VAR_KEYWORD for one in names):
            by_position = [one.name for one in names if one.kind is one.POSITIONAL_OR_KEYWORD]
            slot = by_position.index(argument) if argument in by_position else None
            self.note(key, name, before, after, argument, slot=slot, place=at)
        else:
            self.note(key, public_name(kind), before, after, argument)

    def note_once(self, key: str, name: str, before: Any, after: Any, place: CodePlace | None = None) -> None:
        """Note a change that is made again and again, the first time."""
        if all(one.key != key for one in self.made):
            self.note(key, name, before, after, place=place)


def position_of(argument: str, names: Sequence[str], args: Sequence[Any]) -> int | None:
    """Return the place of an argument among those given without their names; None if it has none.

    `names` are the names of a function's parameters after the first, which is the object itself.
    """
    at = names.index(argument) if argument in names else len(args)
    return at if at < len(args) else None


def public_name(kind: type) -> str:
    """Return the full name of a class by the outermost package that has it: `torch.optim.AdamW`."""
    parts = kind.__module__.split(".")
    packages = [".".join(parts[:depth]) for depth in range(1, len(parts))]
    holders = (one for one in packages if getattr(sys.modules.get(one), kind.__name__, None) is kind)
    return f"{next(holders, kind.__module__)}.{kind.__qualname__}"
