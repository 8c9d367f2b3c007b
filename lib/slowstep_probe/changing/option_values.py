"""Proof that a program has the values that its command was given: they are looked for in what the program holds.

Nothing is changed here. A value counts as seen where a live object of the program holds it under its name: the
namespace of its parser, the arguments of a Trainer, the variables of the program and of the functions that train.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import FrameType, ModuleType
from typing import Any

import torch

from slowstep_probe.changing.intervention import given_name
from slowstep_probe.changing.wanted import Made
from slowstep_probe.late_imports import LateImports
from slowstep_probe.parsed_words import of_the_command
from slowstep_probe.patches import Patches
from slowstep_probe.places import is_started, kind_of
from slowstep_probe.plain import shown

DEPTH = 3
"""How deep a value is looked for in mappings and plain objects."""

MOST = 20_000
"""The most values that are looked at."""


@dataclasses.dataclass(frozen=True)
class Parsed:
    """What a parser found."""

    values: Mapping[str, Any]
    """The values by option as it is written, and by the name it has in the program."""
    held: Any = None
    """The namespace that the program got, in which it may put other values."""
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The name of each option in that namespace."""

    def now(self, option: str) -> Any:
        """Return the value of an option as the program has it now: another number, if it has put one in its place.

        What it has made of a text (a list of a text with commas) still is what was given.
        """
        then = self.values[option]
        now = getattr(self.held, self.names.get(option, option), then)
        return now if type(now) is type(then) and isinstance(now, bool | int | float) else then


class OptionValues:
    """Keeps what parsers return, and looks for values when it is asked."""

    def __init__(self, values: Mapping[str, Any]):
        self.wanted = {key: value for key, value in values.items() if given_name(key)}
        self._parsed: list[Parsed] = []
        self._actions: dict[str, argparse.Action] = {}
        """What argparse does with each option."""
        self._held: dict[str, Any] = {}
        """What was found at the first step."""

    def attach(self, patches: Patches, late: LateImports) -> None:
        patches.look(argparse.ArgumentParser, "parse_known_args", self._argparse)
        late.on("click.core", lambda module: patches.look(module.Command, "parse_args", self._click))

    def look(self, arguments: Any) -> None:
        """Look for the values while the program's functions are on the stack; `arguments` are those of its Trainer."""
        if not self.wanted:
            return
        holders = [arguments, *_held_by_program()]
        for key, wanted in self.wanted.items():
            name, option = _name(key), given_name(key)
            found = [*self._from_parsers(option, name), *_named(name, holders)]
            taken = any(same(one, wanted) or self._means(option, one, wanted) for one in found)
            self._held[key] = wanted if taken else shown(found[0]) if found else None

    def facts(self) -> dict[str, Any]:
        """Return the values by canonical key, as the program holds them; None where it holds none of that name."""
        return dict(self._held)

    def with_option(self, made: Made) -> Made:
        """Return a change with the option of the program's parser that sets its argument, if there is one.

        An option of that name that has another value than the argument had before means something else.
        """
        fits = [o for o in self._actions if made.argument and o.lstrip("-").replace("-", "_") == made.argument]
        option = max(fits, key=len, default="")
        values = [one.values[option] for one in self._parsed if option in one.values]
        if not option or not any(same(value, made.before) for value in values):
            return made
        action = self._actions[option]
        if isinstance(action, argparse.BooleanOptionalAction):
            on, off = (next(o for o in action.option_strings if o.startswith("--no-") is no) for no in (False, True))
            return replace(made, option=on if made.after else off, option_value=True)
        if action.nargs == 0:
            flag = isinstance(made.after, bool) and isinstance(action.const, bool)
            return replace(made, option=option, option_value=made.after == action.const) if flag else made
        return replace(made, option=option, option_value=str(made.after))

    def _means(self, option: str, found: Any, wanted: Any) -> bool:
        """Return whether a value is what the program's own parser makes of what was wanted."""
        action = self._actions.get(option)
        if action is None:
            return False
        if action.nargs == 0:  # a flag: what it stands for, or what stands there without it
            no = isinstance(action, argparse.BooleanOptionalAction) and option.startswith("--no-")
            stands = (not no) if isinstance(action, argparse.BooleanOptionalAction) else action.const
            return same(found, stands) if wanted is True else same(found, action.default)
        try:
            return bool(found == action.type(str(wanted))) if callable(action.type) else False
        except Exception:
            return False

    def _from_parsers(self, option: str, name: str) -> Iterator[Any]:
        for parsed in reversed(self._parsed):
            yield from (parsed.now(one) for one in (option, name) if one in parsed.values)

    def _argparse(self, result: Any, parser: argparse.ArgumentParser, args: Any = None, *_: Any, **__: Any) -> None:
        if not of_the_command(args):
            return
        space = result[0]
        values, names = dict(vars(space)), {}
        for action in parser._actions:
            if action.dest in values:
                values |= dict.fromkeys(action.option_strings, values[action.dest])
                names |= dict.fromkeys(action.option_strings, action.dest)
                self._actions |= dict.fromkeys(action.option_strings, action)
        self._parsed.append(Parsed(values, space, names))

    def _click(self, _: Any, command: Any, context: Any, *args: Any, **kwargs: Any) -> None:
        values = dict(context.params)
        for parameter in command.params:
            if parameter.name in values:
                values |= dict.fromkeys(parameter.opts, values[parameter.name])
        self._parsed.append(Parsed(values))


def same(found: Any, wanted: Any) -> bool:
    """Return whether a value is what was wanted, however a parser wrote it."""
    if isinstance(found, (list, tuple)) and isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(found, (list, tuple)) and len(found) == 1:  # an option that takes several values, given one
        return same(found[0], wanted)
    if isinstance(found, bool) or isinstance(wanted, bool):
        return str(found).lower() == str(wanted).lower()
    try:
        return bool(found == wanted) or float(found) == float(wanted)
    except (TypeError, ValueError, RuntimeError):
        return str(found) == str(wanted)


def _name(key: str) -> str:
    """Return the last part of what a canonical key names, as a program would call it."""
    what = given_name(key)
    return what.rpartition(":")[2].rpartition(".")[2].lstrip("-").replace("-", "_")


def _held_by_program() -> Iterator[Any]:
    """Yield the variables of the functions of the program that are running, innermost first, and its own globals."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if kind_of(frame.f_code.co_filename) == "user" or is_started(frame.f_code.co_filename):
            yield _variables(frame)
        frame = frame.f_back
    main = sys.modules.get("__main__")
    yield dict(vars(main)) if main is not None else {}


def _variables(frame: FrameType) -> dict[str, Any]:
    """Return the variables of a running function, and leave nothing behind that would keep what they hold alive."""
    held = frame.f_locals
    found = dict(held)
    if sys.version_info < (3, 13) and held is not frame.f_globals:  # there it is a copy that the frame keeps
        held.clear()
    return found


def _named(name: str, holders: Iterable[Any]) -> list[Any]:
    """Return the values that holders, and what they hold, have under a name."""
    found: list[Any] = []
    level, seen, looked = list(holders), set(), 0
    for _ in range(DEPTH):
        below: list[Any] = []
        for one in level:
            if id(one) in seen or looked > MOST:
                continue
            seen.add(id(one))
            for key, value in _entries(one):
                looked += 1
                if isinstance(key, str) and key.lstrip("-").replace("-", "_") == name:
                    found.append(value)
                elif not isinstance(value, (str, bytes, int, float, bool, type(None))):
                    below.append(value)
        level = below
    return found


def _entries(one: Any) -> list[tuple[Any, Any]]:
    """Return the names and values of a mapping or of a plain object; none of models, tensors, modules and classes."""
    if isinstance(one, (torch.nn.Module, torch.Tensor, ModuleType, type)) or callable(one):
        return []
    try:
        if isinstance(one, Mapping):
            return list(one.items())[:MOST]
        if dataclasses.is_dataclass(one) or isinstance(one, argparse.Namespace) or hasattr(one, "__dict__"):
            return list(vars(one).items())
    except Exception:
        return []
    return []
