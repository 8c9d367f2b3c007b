"""Secrets among the values that a program is given. They are in no report and in no file that is made to be shared.

A record that must hold one, since it says how to train, can be read by its owner alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

LAST = frozenset({"token", "key", "auth", "pwd", "pat"})
"""Words that name a secret where they end a name: `hub_token`, `WANDB_API_KEY`."""

ANYWHERE = frozenset({"secret", "password", "passwd", "passphrase", "credential", "credentials", "apikey", "authtoken"})
"""Words that name one wherever they stand in it."""

OF_TEXTS = frozenset({"pad", "eos", "bos", "unk", "sep", "cls", "mask", "image", "special", "stop", "start", "end"})
"""Words before `token` with which it is one of a text."""

LONG = 8
"""The letters from which on a value that some secret variable of the environment has is taken for that secret."""

HIDDEN = "***"


def is_secret(name: object, value: object) -> bool:
    """Return whether nobody else should read a value: a text, by its name or since a secret variable has it, or a PIN.

    A number is a secret where its name ends with a word that names nothing else. `token` may count those of a text.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return bool(ANYWHERE & {*_words(str(name))[-1:]})
    if not isinstance(value, str) or not value:
        return False
    return _names_a_secret(str(name)) or any(known in value for known in _known())


def masked(name: object, value: Any, leave_out: bool = False) -> Any:
    """Return a value with `***` in place of secrets, also of those within lists, mappings and commands.

    What a mapping has of them by name can be left out instead.
    """
    if is_secret(name, value):
        return HIDDEN
    if isinstance(value, Mapping):
        kept = {key: one for key, one in value.items() if not (leave_out and _is_all_secret(key, one))}
        return {key: masked(key, one, leave_out) for key, one in kept.items()}
    if isinstance(value, list):
        is_command = all(isinstance(one, str) for one in value) and not _names_a_secret(str(name))
        return hidden(value) if is_command else [masked(name, one, leave_out) for one in value]
    return value


def _is_all_secret(name: object, value: Any) -> bool:
    """Return whether a value is a secret, or a list of nothing else."""
    if isinstance(value, list):
        return bool(value) and all(is_secret(name, one) for one in value) and _names_a_secret(str(name))
    return is_secret(name, value)


def without_secrets(values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return values by name without secrets, also within what is nested."""
    return masked("", values, leave_out=True)


def hidden(words: Sequence[str]) -> list[str]:
    """Return the words of a command, with `***` in place of each secret that follows its option."""
    shown: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        option, given, value = word.partition("=")
        if given and is_secret(option, value):
            shown.append(f"{option}={HIDDEN}")
        elif is_secret(before if before.startswith("-") and "=" not in before else "", word):
            shown.append(HIDDEN)
        else:
            shown.append(word)
    return shown


def _words(name: str) -> list[str]:
    words = re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    return [word for word in words if word]


def _names_a_secret(name: str) -> bool:
    words = _words(name)
    if ANYWHERE & {*words}:
        return True
    return bool(words) and words[-1] in LAST and not (words[-1] == "token" and OF_TEXTS & {*words[:-1]})


def _known() -> list[str]:
    """Return the values of the environment's variables that are secrets by their names. A path is none (`PWD`)."""
    named = [value for name, value in os.environ.items() if len(value) >= LONG and _names_a_secret(name)]
    return [value for value in named if not (os.path.isabs(value) and os.path.exists(value))]
