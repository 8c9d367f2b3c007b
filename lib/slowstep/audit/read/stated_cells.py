"""Ratios to another row that a cell states, `1.35x`, `+35 %`, and the words of the row that they are to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

from slowstep.audit.figures import COMMA, comma, parse
from slowstep.audit.read.columns import NOTE, NOTHING, RELATIVE, Column, plain
from slowstep.text.sentences import listed

LONGEST = 100
"""The most characters of a cell that a question shows."""

RATIO = re.compile(
    r"(?P<about>[~≈]?)\s?(?P<sign>[-+−–]?)(?P<number>\d+(?:,\d+)*(?:\.\d+)?)\s*(?P<unit>x|×|%)?"
    r"(?:\s*(?P<word>faster|speed-?up))?",
    re.IGNORECASE,
)

FASTER = "how many times as fast is that, as in 1.35"

BASE = re.compile(r"\(?(?:the )?(?:base|baseline|ref|reference|control|0(?:\.0+)?(?: ?%)?)\.?\)?", re.IGNORECASE)

FIRST = ((re.compile(r"100(?:\.0+)? ?%"), "whole"), (re.compile(r"0(?:\.0+)?(?: ?%)?"), "more"))
"""The cell of the row that others are to, with what it tells of their percentages (`Column.percentage`)."""


def with_percentages(held: Column, cells: Sequence[str]) -> Column:
    """Return a column of speed-ups with what its percentages are: by its first row, which states 100 % or 0 %."""
    if held.kind != "stated" or held.name != "speed_up":
        return held
    first = next((text for text in map(_said, cells) if text.lower() not in NOTHING), "")
    told = next((what for pattern, what in FIRST if pattern.fullmatch(first)), "")
    return replace(held, percentage=told or held.percentage)


def stated(cell: str, held: Column) -> tuple[str, str] | None:
    """Return a ratio that a cell states, `1.35x`, `+35 %` or an efficiency of `91 %`; None for anything else.

    A speed-up of `135 %` may be either of two things, and is read only where the column tells which, or where it says
    `faster`. ValueError for a comma that could be a decimal point.
    """
    found = RATIO.fullmatch(_said(cell))
    if is_base(cell):
        return None
    if not found:
        return _spread(_said(cell), held)
    about, sign, number, unit, word = found.groups()
    sign = "-" if sign in ("−", "–") else sign
    if "," in number:
        raise ValueError(comma(number) if COMMA.fullmatch(number) else f"expected a number, found '{number}'")
    if held.name == "scaling_efficiency":
        return None if sign or unit in ("x", "×") else (held.name, about + number + (unit or ""))
    if held.name == "time_left":
        return _time_left(about, sign, number, unit or held.unit, held)
    if (unit or held.unit) == "%":
        share = Decimal(sign + number) / 100
        if sign or (word or "").lower() == "faster" or held.percentage == "more":
            return (held.name, f"{about}{1 + share}") if share > -1 else None  # no speed falls by more than all of it
        return (held.name, f"{about}{share}") if held.percentage == "whole" and share else None
    return None if sign or not float(number) else (held.name, about + number)


def _time_left(about: str, sign: str, number: str, unit: str, held: Column) -> tuple[str, str] | None:
    """Return how many percent of a time are left after a change of `-22 %`, or where `22 %` of it are saved.

    A change without a sign could be either, and so could a sign before what is saved.
    """
    if unit != "%" or bool(sign) != (held.percentage == "changed"):
        return None
    left = 100 + Decimal(sign + number) if sign else 100 - Decimal(number)
    return (held.name, f"{about}{left}") if left > 0 else None


def _spread(text: str, held: Column) -> tuple[str, str] | None:
    """Return a speed-up with its spread or as a range, `2.0x ± 0.1` or `1.2-1.4x`; None for anything else."""
    try:
        found = parse(text) if held.name == "speed_up" and text[:1].isdigit() and "%" not in text else None
    except ValueError:
        return None
    return (held.name, text) if found and found.low > 0 else None


def is_base(cell: str) -> bool:
    """Return whether a cell in a column of ratios says that its row is the one that they are to, or says nothing."""
    text = _said(cell)
    return text.lower() in NOTHING or bool(BASE.fullmatch(text))


def odd_ratios(names: Sequence[str], columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """Ask about ratios that columns state in a way that is not read; `cells` are those of each column."""
    for name, held, texts in zip(names, columns, cells, strict=True):
        odd = [plain(text)[:LONGEST] for text in texts if held.kind == "stated" and _not_understood(text, held)]
        if odd:
            said = listed([f"'{text}'" for text in odd], " and ")
            asked = "is that more or less time, as in -22 %" if held.name == "time_left" else FASTER
            yield f"'{name}' says {said}, which is not read: {asked}?"


def _not_understood(cell: str, held: Column) -> bool:
    return any(c.isdigit() for c in cell) and not is_base(cell) and stated(cell, held) is None


def _said(cell: str) -> str:
    return RELATIVE.sub("", NOTE.sub("", plain(cell))).strip()
