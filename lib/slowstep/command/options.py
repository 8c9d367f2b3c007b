"""Options of a command, rewritten in the form in which they stand: `--x 1`, `--x=1`, `-b 4`, `--flag`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def rewritten(arguments: Sequence[str], changes: Mapping[str, object]) -> list[str]:
    """Return arguments with options set. One that stands there keeps its place and its form; others are added.

    The value True adds a flag, False and None remove the option with its value. An option that stands there more than
    once is set each time, since for most parsers the last one counts.
    """
    found: list[str] = []
    left = dict(changes)
    i = 0
    while i < len(arguments):
        word = arguments[i]
        if word == "--":
            break
        name, equals, _ = word.partition("=")
        if name not in changes:
            found.append(word)
            i += 1
            continue
        value = changes[name]
        left.pop(name, None)
        has_value = not equals and i + 1 < len(arguments) and not _is_option(arguments[i + 1])
        i += 2 if (has_value and not isinstance(value, bool)) or (has_value and _was_value(arguments[i + 1])) else 1
        found += _written(name, value, bool(equals))
    for name, value in left.items():
        found += _written(name, value, equals=False)
    return [*found, *arguments[i:]]


def _written(name: str, value: object, equals: bool) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [name]
    return [f"{name}={value}"] if equals else [name, str(value)]


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-" and not NUMBER.fullmatch(word)


def _was_value(word: str) -> bool:
    """Return whether the word after a flag is a truth value that belongs to it."""
    return word.lower() in ("true", "false", "yes", "no", "1", "0")
