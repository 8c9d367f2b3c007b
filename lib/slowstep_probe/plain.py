"""Plain data: messages as dictionaries, and back by the types of their fields; any value as a reader is shown it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

LONGEST = 200
"""The most characters of a value that is shown and is no number."""

_hints = functools.cache(get_type_hints)
"""The types of a class's fields. Working them out takes longer than all the rest."""


def to_plain(value: Any) -> Any:
    """Return a value as dictionaries, lists, texts and numbers, which JSON takes."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(one) for one in value]
    return value


def from_plain(kind: type[T], value: Any) -> T:
    """Return what `to_plain` made of a value of this type. Both ends are the kit's own, so nothing is checked."""
    origin, of = get_origin(kind), get_args(kind)
    if value is None or kind is Any:
        return value
    if origin in (Union, UnionType):
        return from_plain(next(one for one in of if one is not type(None)), value)
    if is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: from_plain(hints[name], one) for name, one in value.items()})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if origin in (list, tuple):
        return origin(from_plain(of[0], one) for one in value)
    if origin is dict:
        return {key: from_plain(of[1], one) for key, one in value.items()}
    return value


def shortened(text: str, most: int) -> str:
    """Return a text of about `most` characters at most: its whole sentences, or else its whole words and `…`."""
    if len(text) <= most:
        return text
    begin = text[:most]
    sentences = max(begin.rfind(end) for end in (". ", "! ", "? ")) + 1
    if sentences > most / 2:
        return begin[:sentences]
    return f"{begin.rpartition(' ')[0] or begin} …"


def shown(value: Any) -> Any:
    """Return a value as JSON takes it: numbers and short texts as they are, the rest as text."""
    if isinstance(value, Enum):
        return shown(value.value)
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: shown(getattr(value, one.name, None)) for one in fields(value)}
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, (list, tuple)) and len(value) <= 20:
        return [shown(one) for one in value]
    if isinstance(value, Mapping) and len(value) <= 40:
        return {str(key): shown(one) for key, one in value.items()}
    try:
        return str(value)[:LONGEST]
    except Exception:
        return f"<{type(value).__name__}>"
