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

from slowstep_probe.changing.wanted import Made
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches
from slowstep_probe.places import kind_of

DEPTH = 3
"""How deep a value is looked for in mappings and plain objects."""

MOST = 20_000
"""The most values that are looked at."""

MARK = "given["
"""The beginning of the canonical key of a value that the command was given: `given[--lr]`, `given[config.yml:a.b]`."""


class Given:
    """Keeps what parsers return, and looks for values when it is asked."""

    def __init__(self, values: Mapping[str, Any]):
        self.wanted = {key: value for key, value in values.items() if key.startswith(MARK)}
        self._parsed: list[dict[str, Any]] = []
        """The values that a parser found, by option as it is written and by the name it has in the program."""
        self._flags: dict[str, bool] = {}
        """True for each option that takes no value, by option."""
        self._held: dict[str, Any] = {}
        """What was found at the first step."""

    def attach(self, patches: Patches, late: LateImports) -> None:
        """Begin."""
        patches.around(argparse.ArgumentParser, "parse_known_args", self._argparse)
        late.on("click.core", lambda module: patches.after(module.Command, "parse_args", self._click))

    def look(self, arguments: Any) -> None:
        """Look for the values while the program's functions are on the stack; `arguments` are those of its Trainer."""
        for key, wanted in self.wanted.items():
            name = _name(key)
            found = [*self._from_parsers(key, name), *_named(name, [arguments, *_held_by_program()])]
            self._held[key] = next((wanted for one in found if same(one, wanted)), found[0] if found else None)

    def facts(self) -> dict[str, Any]:
        """Return the values by canonical key, as the program holds them; None where it holds none of that name."""
        return dict(self._held)

    def with_option(self, made: Made) -> Made:
        """Return a change with the option of the program's parser that sets its argument, if there is one."""
        fits = [o for o in self._flags if made.argument and o.lstrip("-").replace("-", "_") == made.argument]
        option = max(fits, key=len, default="")
        if not option:
            return made
        stands = self._flags[option]
        if stands and not isinstance(made.after, bool):
            return made
        return replace(made, option=option, option_value=made.after if stands else str(made.after))

    def _from_parsers(self, key: str, name: str) -> Iterator[Any]:
        option = key.removeprefix(MARK).removesuffix("]")
        for space in reversed(self._parsed):
            yield from (space[one] for one in (option, name) if one in space)

    def _argparse(self, original: Any, parser: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
        space, rest = original(parser, *args, **kwargs)
        values = dict(vars(space))
        for action in parser._actions:
            if action.dest in values:
                values |= dict.fromkeys(action.option_strings, values[action.dest])
                self._flags |= dict.fromkeys(action.option_strings, action.nargs == 0)
        self._parsed.append(values)
        return space, rest

    def _click(self, _: Any, command: Any, context: Any, *args: Any, **kwargs: Any) -> None:
        values = dict(context.params)
        for parameter in command.params:
            if parameter.name in values:
                values |= dict.fromkeys(parameter.opts, values[parameter.name])
        self._parsed.append(values)


def same(found: Any, wanted: Any) -> bool:
    """Return whether a value is what was wanted, however a parser wrote it."""
    if isinstance(found, (list, tuple)) and isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(found, bool) or isinstance(wanted, bool):
        return str(found).lower() == str(wanted).lower()
    try:
        return bool(found == wanted) or float(found) == float(wanted)
    except (TypeError, ValueError, RuntimeError):
        return str(found) == str(wanted)


def _name(key: str) -> str:
    """Return the last part of what a canonical key names, as a program would call it."""
    what = key.removeprefix(MARK).removesuffix("]")
    return what.rpartition(":")[2].rpartition(".")[2].lstrip("-").replace("-", "_")


def _held_by_program() -> Iterator[Any]:
    """Yield the variables of the functions of the program that are running, innermost first, and its own globals."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if kind_of(frame.f_code.co_filename) == "user":
            yield dict(frame.f_locals)
        frame = frame.f_back
    main = sys.modules.get("__main__")
    yield dict(vars(main)) if main is not None else {}


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
                if str(key).lstrip("-").replace("-", "_") == name:
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
