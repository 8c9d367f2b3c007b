"""Lines that start a program: the command in a shell's line, and whether Python is told to run the user's own code."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from slowstep_probe.places import kind_of
from slowstep_probe.ranks.launched_commands import MODULES


def first_command(line: str) -> list[str]:
    """Return the words of the first command of a shell's line, up to what redirects it or what comes after it.

    A line with a quotation that does not end has none.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    with contextlib.suppress(ValueError):
        return [*takewhile(lambda word: not set(word) <= set("|&;<>()"), lexer)]
    return []


def is_own_program(words: Sequence[str], folder: Any) -> bool:
    """Return whether Python is told to run a file or a module of the user's own, or a launcher, which runs one."""
    at = os.path.abspath(os.fsdecode(folder or "."))
    rest = iter(words)
    for word in rest:
        if word in ("-W", "-X"):
            next(rest, "")
        elif word == "-m":
            name = next(rest, "")
            top = os.path.join(at, name.partition(".")[0])
            return name in MODULES or os.path.isfile(f"{top}.py") or os.path.isdir(top)
        elif not word.startswith("-"):
            return word.endswith(".py") and kind_of(os.path.join(at, word)) == "user"
    return False
