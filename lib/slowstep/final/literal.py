"""Values and names as Python source. A generated script takes nothing else from settings."""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Mapping
from typing import Any


class Name(str):
    """An identifier, which is written into a script without quotes."""


def name(text: str) -> Name:
    """Return `text` as an identifier of a script; ValueError if it is none."""
    if not text.isidentifier() or keyword.iskeyword(text):
        raise ValueError(f"{text!r} is no name that a script can use")
    return Name(text)


def literal(value: Any) -> str:
    """Return a value as the source text of a script; TypeError for a value that has no literal.

    Infinity and NaN have none, so they are written as the calls `float("inf")` and `float("nan")`.
    """
    if isinstance(value, Name):
        return str(value)
    if isinstance(value, str):
        # characters that are not printable (control characters, marks of the reading direction) are written as escapes
        return json.dumps(value, ensure_ascii=False) if value.isprintable() else repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    raise TypeError(f"a script has no literal for a value of type {type(value).__name__}")
