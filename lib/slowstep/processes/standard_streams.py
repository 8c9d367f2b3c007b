"""Standard input, output and error of this process, where whoever started it has closed them (`2>&-`, a daemon)."""

from __future__ import annotations

import os
import sys


def open_standard_streams() -> None:
    """Open those that are closed. What is written there is dropped.

    Else the next file or socket would take their numbers, and be written to or replaced as if it were one of them.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  it stays
