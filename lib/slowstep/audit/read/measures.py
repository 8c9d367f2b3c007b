"""Cells that hold a measurement with its unit (`412 ms`, `12.3 GiB`), or count and name devices (`8x A100`)."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from slowstep.audit.read.columns import CELL, MEMORY, MONEY, NOTE, NOTHING, PERCENT, Column, figure, plain
from slowstep.audit.read.unit_grammar import TIMES, ratio

UNITS = {*TIMES, *MEMORY, *MONEY, *PERCENT, "x", "×", "kb", "kib", "tb", "tib", "w", "kw", "°c"}
"""Units that stand behind a number alone. Those of ratios are read by the grammar of units.

`b` is none: `7b` is the size of a model.
"""

ROUNDED = re.compile(r"[~≈]?\d+\.\d+k", re.IGNORECASE)
"""A number in thousands with a decimal. `7B` and `350M` are sizes of models, and `8k` may be a length."""


COUNTED = re.compile(
    r"(?P<count>\d{1,6})(?:\s?[x×]|\s*[x×*]?\s*\(?"
    r"(?!x ?\d|.*(?:MI250|GB\d{3}|GH200 NVL|TPU v[23]\b|\b[HD]GX\b|node|host))"  # a product, or several in one
    r"(?P<device>(?:gpu|device|card|chip|accelerator|tpu|npu)s?|[a-z][\w-]*(?: [\w-]+){0,4}(?<=\w))\)?)",
    re.IGNORECASE,
)
"""A number of devices before their name."""

GENERIC = re.compile(r"(?:gpu|device|card|chip|accelerator|tpu|npu)s?", re.IGNORECASE)


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


def counted_devices(cell: str, held: Column) -> tuple[str, str] | None:
    """Return the number of devices that a cell counts, and their name; None if it says something else.

    The name is empty where the cell names no kind of device.
    """
    found = COUNTED.fullmatch(plain(cell)) if held.kind == "figure" and held.name == "devices" else None
    if not found:
        return None
    device = found["device"] or ""
    if not device or GENERIC.fullmatch(device):
        return found["count"], ""
    return (found["count"], device) if any(c.isdigit() for c in device) else None


def of_devices(held: Column, cells: Sequence[str]) -> Column:
    """Return a column that counts devices as one that nobody read, if cells name devices and give no number."""
    if held.kind != "figure" or held.name != "devices":
        return held
    return held if all(counted_devices(cell, held) or _is_count(cell, held) for cell in cells) else Column("open")


def _is_count(cell: str, held: Column) -> bool:
    try:
        return figure(cell, held) is not None or plain(cell).lower() in NOTHING
    except ValueError:
        return not any(c.isalpha() for c in plain(cell))  # a number that may be several things is asked about
