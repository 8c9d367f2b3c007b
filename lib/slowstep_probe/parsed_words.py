"""The words that a parser of the program is given: those of its command, or some of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def of_the_command(words: Sequence[str] | None) -> bool:
    """Return whether a parser that is given `words` may know the command's options; None stands for all of them.

    Words that share none with the command are the program's own, as in `parse_args(["--config", "sft.yaml"])`. No
    option of the command reaches such a parser. No words at all may be what is left of the command's (a subcommand).
    """
    return not words or not set(words).isdisjoint(sys.argv[1:])
