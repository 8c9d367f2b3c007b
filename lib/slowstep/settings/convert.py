"""Conversion of plain data (YAML, JSON) to typed dataclasses and back.

Little is converted silently: YAML reads `1e-4` as a text, and where a number is expected, such a text becomes that
number; and a whole number becomes a float where one is expected. Every problem is reported with its key, and all of
them at once.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from slowstep.settings.errors import nearest

T = typing.TypeVar("T")


NOT_IN_FILES = {"in files": False}
"""The metadata of a dataclass field that stands neither in a parameter file nor in a record."""


KEY = "key"
"""The entry of a dataclass field's metadata that names its key in files, if that is another than its own name."""

SCALARS = (bool, int, float, str)
"""The types whose values are taken as they are."""


class Problems:
    """A collection of problems, each with the place where it was found."""

    def __init__(self, source: str = "", places: Mapping[str, str] | None = None):
        self.source, self.places, self.found = source, places or {}, []

    def add(self, key: str, message: str) -> None:
        """Note that `key` (a dotted path) is wrong."""
        place = nearest_place(self.places, key) or self.source
        self.found.append(f"{place}: {key or 'the file'}: {message}" if place else f"{key or 'the file'}: {message}")


def nearest_place(places: Mapping[str, str], key: str) -> str:
    """Return the place of a dotted key, or else of the nearest key that holds it; empty if neither is known."""
    while key and key not in places:
        key = key[: max(key.rfind("."), key.rfind("["), 0)]
    return places[key] if key else ""


def to_plain(value: Any) -> Any:
    """Return a dataclass as dicts, lists and scalars that JSON takes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name_in_files(f): to_plain(getattr(value, f.name)) for f in _in_files(value)}
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(v) for v in value]
    return value


def _in_files(kind: Any) -> list[dataclasses.Field]:
    return [f for f in dataclasses.fields(kind) if f.metadata != NOT_IN_FILES]


def name_in_files(field: dataclasses.Field) -> str:
    """Return the key of a field, which may be a word that Python keeps for itself (`class`)."""
    return field.metadata.get(KEY, field.name)


def from_plain(kind: type[T], value: Any, problems: Problems | None = None, key: str = "") -> T:
    """Return plain data as `kind`; problems go to `problems`, or are raised together as a ValueError without it.

    `kind` may be a dataclass, a scalar type, `list`/`tuple`/`dict` of those, a Literal or a union.
    """
    own = problems or Problems()
    result = _convert(kind, value, own, key)
    if problems is None and own.found:
        raise ValueError("\n".join(own.found))
    return result


def _convert(kind: Any, value: Any, problems: Problems, key: str) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any or kind is object:
        return value
    if origin in (Union, types.UnionType):
        return _union(args, value, problems, key)
    if origin is Literal:
        return _literal(args, value, problems, key)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, problems, key)
    if origin in (list, tuple):
        return _sequence(origin, args[0], value, problems, key)
    if origin is dict or kind is dict:
        if not isinstance(value, Mapping):
            problems.add(key, f"expected a mapping of names to values, found {describe(value)}.")
            return {}
        item = args[1] if args else Any
        if _are_all(item, value.values()):
            return {str(k): v for k, v in value.items()}
        return {str(k): _convert(item, v, problems, f"{key}.{k}") for k, v in value.items()}
    return _scalar(kind, value, problems, key)


def _union(args: tuple, value: Any, problems: Problems, key: str) -> Any:
    if value is None and type(None) in args:
        return None
    candidates = [a for a in args if a is not type(None)]
    for candidate in candidates:
        attempt = Problems()
        converted = _convert(candidate, value, attempt, key)
        if not attempt.found:
            return converted
    if len(candidates) == 1:
        return _convert(candidates[0], value, problems, key)
    names = " or ".join(getattr(c, "__name__", str(c)) for c in candidates)
    problems.add(key, f"expected {names}, found {describe(value)}.")
    return value


def _literal(allowed: tuple, value: Any, problems: Problems, key: str) -> Any:
    if not any(value == a and type(value) is type(a) for a in allowed):
        problems.add(key, f"found {describe(value)}.{nearest(str(value), [str(a) for a in allowed])}")
    return value


_hints = functools.cache(get_type_hints)
"""The types of a class's fields; working them out takes longer than all the rest."""


@functools.cache
def _fields(kind: Any) -> dict[str, dataclasses.Field]:
    """Return the fields of a class by their keys in files."""
    return {name_in_files(f): f for f in _in_files(kind)}


def _in_a_section(kind: Any, name: str) -> str:
    """Return the hint that a section has the key `name`, which stands outside of it; empty if none has."""
    for section, field in _fields(kind).items():
        hint = _hints(kind)[field.name]
        if any(dataclasses.is_dataclass(one) and name in _fields(one) for one in (hint, *get_args(hint))):
            return f" Did you mean '{section}.{name}'?"
    return ""


def _dataclass(kind: Any, value: Any, problems: Problems, key: str) -> Any:
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        problems.add(key, f"expected a section with keys, found {describe(value)}.")
        value = {}
    hints = _hints(kind)
    fields = _fields(kind)
    given = {}
    for name, item in value.items():
        path = f"{key}.{name}" if key else str(name)
        if name not in fields:
            problems.add(path, f"no such key.{nearest(str(name), fields) or _in_a_section(kind, str(name))}")
        else:
            given[fields[name].name] = _convert(hints[fields[name].name], item, problems, path)
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in given:
            problems.add(f"{key}.{name}" if key else name, "this key is required.")
            given[field.name] = None
    return kind(**given)


def _sequence(origin: type, item: Any, value: Any, problems: Problems, key: str) -> Any:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        problems.add(key, f"expected a list, found {describe(value)}; write [{value}] for a single value.")
        return origin()
    if _are_all(item, value):
        return origin(value)
    return origin(_convert(item, v, problems, f"{key}[{i}]") for i, v in enumerate(value))


def _are_all(kind: Any, values: Iterable[Any]) -> bool:
    """Return whether values are of a scalar type already, as the many figures of a record are."""
    return kind in SCALARS and set(map(type, values)) <= {kind}


def _scalar(kind: type, value: Any, problems: Problems, key: str) -> Any:
    if kind is float and isinstance(value, str) and (number := as_number(value)) is not None:
        return number
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is kind:
        return value
    problems.add(key, f"expected {NAMES.get(kind, kind.__name__)}, found {describe(value)}.")
    return value


def as_number(text: str) -> float | None:
    """Return the number that a text means, since YAML reads `1e-4` as a text; None if it means none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number


NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a mapping",
}


def describe(value: Any) -> str:
    """Return a value as messages show it: `'1e-4' (a text)`."""
    if value is None:
        return "nothing (null)"
    kind = {**NAMES, tuple: "a list"}.get(type(value), type(value).__name__)
    shown = repr(value) if len(repr(value)) < 60 else repr(value)[:57] + "..."
    return f"{shown} ({kind})"
