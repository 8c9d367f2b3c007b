"""Options of a command, rewritten in the form in which they stand: `--x 1`, `--x=1`, `-b 4`, `-b4`, `--flag`, `x=1`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")

TRUTH = ("true", "false", "yes", "no", "1", "0")
"""Words after a flag that may be its value."""


def rewritten(arguments: Sequence[str], changes: Mapping[str, object]) -> list[str]:
    """Return arguments with options set. One that stands there keeps its place and its form; others are added.

    The value True adds a flag and False removes it, where no truth value stands that can be replaced; None removes the
    option with its value, and a list gives it several values. An option that stands there more than once is set each
    time, since for most parsers the last one counts. A name without a dash is set as `name=value`.
    """
    found: list[str] = []
    left = dict(changes)
    i = 0
    while i < len(arguments):
        word = arguments[i]
        if word == "--":
            break
        name, attached = _name(word, changes)
        if name is None:
            found.append(word)
            i += 1
            continue
        value = changes[name]
        left.pop(name, None)
        own = (
            [word[len(name) + 1 :]]
            if attached == "="
            else arguments[i + 1 :][: _values_after(arguments[i + 1 :], value)]
        )
        i += 1 if attached else 1 + len(own)
        found += _written(name, _spelled(value, own), attached)
    joined = _joins(arguments)
    for name, value in left.items():
        found += _written(name, value, "=" if joined or not name.startswith("-") else "")
    return [*found, *arguments[i:]]


def current(arguments: Sequence[str], name: str) -> str | None:
    """Return the text of an option's value as it stands among arguments, the last one; None if it has none."""
    said = None
    for i, word in enumerate(arguments):
        if word == "--":
            break
        if word.startswith(name + "="):
            said = word[len(name) + 1 :]
        elif word == name and i + 1 < len(arguments) and not _is_option(arguments[i + 1]):
            said = arguments[i + 1]
        elif _short(name) and word.startswith(name) and len(word) > len(name):
            said = word[len(name) :]
    return said


def _name(word: str, changes: Mapping[str, object]) -> tuple[str | None, str]:
    """Return the option of `changes` that a word sets, and what joins it with its value: nothing, `=`, or a letter."""
    name, equals, _ = word.partition("=")
    if name in changes and (equals or name.startswith("-")):
        return name, equals
    short = word[:2]
    takes_value = short in changes and not isinstance(changes[short], bool)
    if _short(short) and takes_value and len(word) > len(short):
        return short, short[1]
    return None, ""


def _short(name: str) -> bool:
    return len(name) == len("-b") and name[0] == "-" and name[1] != "-"


def _values_after(words: Sequence[str], value: object) -> int:
    """Return how many words after an option are its values."""
    if not words or _is_option(words[0]):
        return 0
    if isinstance(value, bool):
        return int(words[0].lower() in TRUTH)
    if not isinstance(value, list):
        return 1
    return next((i for i, word in enumerate(words) if _is_option(word)), len(words))


def _joins(arguments: Sequence[str]) -> bool:
    """Return whether the options that stand there are joined with their values by `=`, and none is not."""
    options = [word for word in arguments if word.startswith("--") and word != "--"]
    return bool(options) and all("=" in word for word in options)


def _spelled(value: object, own: Sequence[str]) -> object:
    """Return a value as the text that stands for it where a text stood: `no` for `yes`, `[3,4]` for `[1,2]`."""
    said = own[0] if own else ""
    if isinstance(value, list) and len(own) == 1 and said.startswith("["):
        return f"[{','.join(map(str, value))}]"
    if not isinstance(value, bool) or said.lower() not in TRUTH:
        return value
    pair = next(p for p in (("true", "false"), ("yes", "no"), ("1", "0")) if said.lower() in p)
    text = pair[0] if value else pair[1]
    return text.capitalize() if said[0].isupper() else text


def _written(name: str, value: object, attached: str) -> list[str]:
    if isinstance(value, bool) and not name.startswith("-"):
        value = str(value).lower()
    if value is None or value is False:
        return []
    if isinstance(value, list):
        return [f"{name}={','.join(map(str, value))}"] if attached else [name, *map(str, value)]
    if attached and attached != "=":
        return [f"{name}{value}"]
    if value is True:
        return [name]
    return [f"{name}={value}"] if attached else [name, str(value)]


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-" and not NUMBER.fullmatch(word)
