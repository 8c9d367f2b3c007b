"""Values and names as Python source: what a generated script takes from settings, and nothing else."""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Mapping
from typing import Any


class Name(str):
    """An identifier, which stands in a script as it is."""


def name(text: str) -> Name:
    """Return `text` as an identifier of a script; ValueError if it is none."""
    if not text.isidentifier() or keyword.iskeyword(text):
        raise ValueError(f"{text!r} is no name that a script can use")
    return Name(text)


def literal(value: Any) -> str:
    """Return a value as one writes it in a script; TypeError for what no literal can say.

    No number but a finite one has a literal, so `float("inf")` and `float("nan")` are the two calls that this makes.
    """
    if isinstance(value, Name):
        return str(value)
    if isinstance(value, str):
        # what is not printable (control characters, marks that turn the direction of reading) is written as escapes
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
