"""Numbers of the command line."""

from __future__ import annotations

import argparse
import contextlib


def positive_number(text: str) -> float:
    """Return a number; an error of the command line if it is none, or not above 0."""
    with contextlib.suppress(ValueError):
        if 0 < (number := float(text)) < float("inf"):
            return number
    raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")


def positive_integer(text: str) -> int:
    """Return a whole number; an error of the command line if it is none, or not above 0."""
    with contextlib.suppress(ValueError):  # Python takes no number of more than 4300 digits
        if text.isdecimal() and int(text) > 0:
            return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")


def is_port(text: str) -> bool:
    """Return whether a text is the number of a port, 1 to 65535."""
    return text.isdecimal() and len(text) <= len(str(2**16)) and 0 < int(text) < 2**16
