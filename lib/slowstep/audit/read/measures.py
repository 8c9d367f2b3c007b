"""Cells that hold a measurement with its unit (`412 ms`, `2.13s/it`, `12.3 GiB`), and no word that names a run."""

from __future__ import annotations

import functools
import re

from slowstep.audit.read.columns import CELL, MEMORY, MONEY, NOTE, PERCENT, plain
from slowstep.audit.read.unit_grammar import TIMES, ratio

UNITS = {*TIMES, *MEMORY, *MONEY, *PERCENT, "x", "×", "kb", "kib", "tb", "tib", "w", "kw", "°c"}
"""Units that stand behind a number alone. Those of ratios are read by the grammar of units.

`b` is none: `7b` is the size of a model.
"""

ROUNDED = re.compile(r"[~≈]?\d+\.\d+k", re.IGNORECASE)
"""A number in thousands with a decimal. `7B` and `350M` are sizes of models, and `8k` may be a length."""


@functools.lru_cache(maxsize=4096)
def is_measure(cell: str) -> bool:
    """Return whether a cell is a number with a unit of measurement behind it, or a rounded number of thousands."""
    found = CELL.match(NOTE.sub("", plain(cell)))
    if not found:
        return False
    amount, tail = found.groups()
    if not tail:
        return bool(ROUNDED.fullmatch(amount))
    return tail != "M" and (tail.lower() in UNITS or ratio(tail) is not None)  # `350 M` is a number of millions


def number(text: str) -> float | None:
    """Return the number that a cell holds; None if it holds another text."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
