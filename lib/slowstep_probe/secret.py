"""Secrets among the values that a program is given. They are in no report and in no file that is made to be shared.

A record that must hold one, since it says how to train, can be read by its owner alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

LAST = frozenset({"token", "key", "auth", "pwd", "pat", "pass", "bearer", "cookie", "cookies", "dsn"})
"""Words that name a secret where they end a name: `hub_token`, `WANDB_API_KEY`."""

ANYWHERE = re.compile(r"secret|password|passwd|passphrase|credential|apikey|authtoken|privatekey|(?<=\w)token$")
"""Parts of words that name one wherever they stand in a name: `PGPASSWORD`, `hubtoken`."""

SEVERAL = frozenset({"tokens", "keys"})
OF_ACCESS = frozenset(
    {"access", "api", "auth", "bot", "hf", "hub", "private", "refresh", "secret", "signing", "ssh", "user"}
)
"""Words of several secrets, and one of the words that stand before them then: the tokens of a text are none."""

VARIANTS = re.compile(r"\d+|read|write|ro|rw|b64|base64|prod|dev|test|staging|old|new")
"""Words behind those that name a secret: `GITHUB_TOKEN_2`, `PRIVATE_KEY_B64`."""

OF_TEXTS = frozenset({"pad", "eos", "bos", "unk", "sep", "cls", "mask", "image", "special", "stop", "start", "end"})
"""Words before `token` with which it is one of a text."""

IN_TEXTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(\w[\w+.-]{0,20}://[^\s/:@]{0,100}:)[^\s/@]{1,200}(?=@)",
        r"(\b(?:bearer|basic)\s{1,3})[\w.~+/=-]{12,}",
        r"(\b(?:password|passwd|pwd|accountkey|sharedaccesskey|api_?key)\s?=\s?)[^\s;&'\"]{3,200}",
    )
)
"""Secrets by the words before them: the password of a URL, of an HTTP header and of a connection string."""

LONG = 8
"""The letters from which on a value that some secret variable of the environment has is taken for that secret."""

HIDDEN = "***"


def is_secret(name: object, value: object) -> bool:
    """Return whether nobody else should read a value: a text, by its name or since a secret variable has it, or a PIN.

    A number is a secret where its name ends with a word that names nothing else. `token` may count those of a text.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return any(map(_is_named_anywhere, _words(str(name))[-1:]))
    if not isinstance(value, str) or not value:
        return False
    return _names_a_secret(str(name), value) or cleaned(value) != value


def cleaned(text: str) -> str:
    """Return a text, an error's say, with `***` in place of the secrets in it that are known or told by their place."""
    for known in _known():
        text = text.replace(known, HIDDEN)
    for pattern in IN_TEXTS:
        text = pattern.sub(rf"\1{HIDDEN}", text)
    return text


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


def _names_a_secret(name: str, value: str = "") -> bool:
    """Return whether a name is that of a secret. Where it may also be a count, a number is none."""
    words = _words(name)
    if any(map(_is_named_anywhere, words)):
        return True
    while len(words) > 1 and VARIANTS.fullmatch(words[-1]):
        words.pop()
    *before, last = words or [""]
    last = last.rstrip("0123456789")
    if value.isdecimal() or (last == "token" and OF_TEXTS & {*before}):
        return False
    return last in LAST or (last in SEVERAL and bool(OF_ACCESS & {*before}))


def _is_named_anywhere(word: str) -> bool:
    """Return whether a word of a name says that it is a secret, and is no token of a text (`padtoken`)."""
    return ANYWHERE.search(word) is not None and word.removesuffix("token") not in OF_TEXTS


AT_FIRST = dict(os.environ)
"""The environment as it was given to the process; a program may empty its own."""


def _known() -> list[str]:
    """Return the values of the environment's variables that are secrets by their names. A path is none (`PWD`)."""
    every = {(name, value) for env in (AT_FIRST, os.environ) for name, value in env.items()}
    named = {value for name, value in every if len(value) >= LONG and _names_a_secret(name, value)}
    return sorted((v for v in named if not (os.path.isabs(v) and os.path.exists(v))), key=len, reverse=True)


class Cleaner:
    """Cleans an output that comes in pieces: a secret may lie in two of them."""

    def __init__(self) -> None:
        self._held = b""
        self._known = [known.encode("utf-8", errors="surrogateescape") for known in _known()]

    def cleaned(self, text: bytes) -> bytes:
        """Return the text so far without secrets. What may be the beginning of one comes with the next piece."""
        text = self._held + text
        for known in self._known:
            text = text.replace(known, HIDDEN.encode())
        kept = max((_begun(text, known) for known in self._known), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def rest(self) -> bytes:
        """Return what was held back once nothing more comes."""
        text, self._held = self._held, b""
        return text


def _begun(text: bytes, known: bytes) -> int:
    """Return how many bytes at the end of a text are the beginning of a secret."""
    return next((n for n in range(min(len(known) - 1, len(text)), 0, -1) if text.endswith(known[:n])), 0)
