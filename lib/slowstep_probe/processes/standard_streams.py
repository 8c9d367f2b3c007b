"""The standard streams of a program that nobody watches."""

from __future__ import annotations

import contextlib
import os
import sys


def close_standard_input() -> None:
    """Give this process a standard input at its end: whoever asks a question gets no answer, nor waits for one."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin = os.fdopen(0, "r", closefd=False)


def print_to(descriptor: int) -> None:
    """Send all that this process and its children print to a descriptor, whichever way they print it, and close it."""
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    if descriptor > 2:
        os.close(descriptor)
    for name, stream in (("stdout", 1), ("stderr", 2)):
        setattr(sys, name, os.fdopen(stream, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False))


def flush() -> None:
    """Write what waits in the streams, whatever the program has put in their place."""
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
