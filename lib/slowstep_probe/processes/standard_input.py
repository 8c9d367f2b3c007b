"""Standard input of a program that nobody watches. Whoever asks a question gets no answer, nor waits for one."""

from __future__ import annotations

import os
import sys


def close_standard_input() -> None:
    """Give this process a standard input that is at its end."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin = os.fdopen(0, "r", closefd=False)
