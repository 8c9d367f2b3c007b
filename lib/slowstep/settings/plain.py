"""Plain data: texts, numbers, true, false and null, in lists, and in mappings with texts as keys.

Anything else (a date, bytes, a key that is a number) can't stand in JSON, in YAML that others read, or in a script.
The size is limited, too, so that no reader of a parameter file is kept busy for ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

MOST_VALUES, DEEPEST, LARGEST = 20_000, 40, 2**63
"""The limits: values in a file with all aliases written out, levels of nesting, and the size of a whole number (the
libraries take 64-bit integers). The largest file in params/ has 312 values on 5 levels."""

SCALARS = (str, bool, int, float, type(None))


def unsuitable(data: Any) -> Iterator[tuple[str, str]]:
    """Yield (key, message) for all that is not plain data; a message about the whole file is the last."""
    stack: list[tuple[str, Any, int]] = [("", data, 0)]
    for _ in range(MOST_VALUES):
        if not stack:
            return
        key, value, depth = stack.pop()
        if depth > DEEPEST:
            yield key.partition(".")[0], f"nested more than {DEEPEST} levels deep; nothing here needs that."
            return
        if isinstance(value, Mapping):
            for name in value:
                if not isinstance(name, str):
                    yield key, f"found the key {show(name)}, which is no text; write it in quotes."
                elif bad := _no_letter(name):
                    yield key, f"found the character U+{ord(bad):04X} in the key {show(name)}; remove it."
            stack += [(f"{key}.{n}" if key else str(n), v, depth + 1) for n, v in value.items() if isinstance(n, str)]
        elif isinstance(value, list | tuple):
            stack += [(f"{key}[{i}]", v, depth + 1) for i, v in enumerate(value)]
        elif not isinstance(value, SCALARS):
            yield key, f"found {show(value)}; write it in quotes if it is a text."
        elif isinstance(value, int) and not -LARGEST <= value < LARGEST:
            yield key, f"found {show(value)}; no number here has more than 64 bits."
        elif isinstance(value, float) and math.isnan(value):
            yield key, "found nan, which is no number that anything can be set to."
        elif isinstance(value, str) and (bad := _no_letter(value)):
            yield key, f"found the character U+{ord(bad):04X} in a text; remove it."
    if stack:
        yield "", f"more than {MOST_VALUES} values, aliases (*name) written out; a parameter file has a few hundred."


def _no_letter(text: str) -> str:
    """Return the first character that no file of text and no word of the system can hold; empty if there is none."""
    return next((c for c in text if c == "\0" or "\ud800" <= c < "\ue000"), "")


def is_utf8(text: str) -> bool:
    """Return whether a path or a word of the system is a text; its bytes that are no UTF-8 are halves of pairs."""
    return not any("\ud800" <= character < "\ue000" for character in text)


def show(value: Any) -> str:
    """Return a value in a few words, however large it is."""
    if isinstance(value, int) and abs(value) >= LARGEST:
        return f"a whole number of {value.bit_length()} bits"
    kind = {bool: "true or false", int: "a whole number", float: "a number", type(None): "null"}
    return f"{repr(value)[:60]} ({kind.get(type(value), f'a {type(value).__name__}')})"
