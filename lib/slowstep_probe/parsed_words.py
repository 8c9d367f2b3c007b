"""The words that a parser of the program is given: those of its command, or some of its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any


def of_the_command(words: Sequence[str] | None) -> bool:
    """Return whether a parser that is given `words` may know the command's options; None stands for all of them.

    Words that share none with the command are the program's own, as in `parse_args(["--config", "sft.yaml"])`. No
    option of the command reaches such a parser. No words at all may be what is left of the command's (a subcommand).
    """
    return not words or not set(words).isdisjoint(sys.argv[1:])


def as_written(action: argparse.Action, value: Any) -> tuple[str, Any]:
    """Return an option as a command has it, with its value; of a flag, whether it stands there.

    A program that was given `--no-cuda` may hold `cuda=False`: the flag is True. Of `--cuda` and `--no-cuda` that are
    one option, it is the first.
    """
    names, both = action.option_strings, isinstance(action, argparse.BooleanOptionalAction)
    names = [name for name in names if not (both and name.startswith("--no-"))] or names
    is_flag = isinstance(action, argparse._StoreConstAction) and action.const is not None
    return max(names, key=len), value == action.const if is_flag else value
