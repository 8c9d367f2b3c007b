"""Numbers with decimal commas, `412,5` and `1.234,5`, in tables whose cells semicolons part.

One number that can be read in no other way tells how all of them are written, unless another one speaks against it.
Where none does, the comma is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from slowstep.audit.figures import COMMA, comma
from slowstep.audit.read.source_text import Unreadable

Cell = tuple[str, int, int]

SIGN = r"[~≈<>]?\s?[-+−]?"
WITH_COMMA = re.compile(rf"\s*{SIGN}(?P<whole>\d{{1,3}}(?:\.\d{{3}})+|\d+),(?P<behind>\d+)(?![\d,.])")
WITH_POINT = re.compile(rf"\s*{SIGN}(?:0\.\d+|\d{{4,}}\.\d+|\d+\.(?:\d{{1,2}}|\d{{4,}}))[^\d.,]*")
THOUSANDS_BY_COMMAS = re.compile(rf"\s*{SIGN}\d{{1,3}}(?:,\d{{3}})+(?:\.\d+|,\d{{3}})")
NUMBER = re.compile(r"(?<![\d.,])(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?(?![\d,]|\.\d)")


def with_decimal_points(rows: Sequence[list[Cell]], delimiter: str, source: str) -> list[list[Cell]]:
    """Return the rows with decimal points in place of commas; Unreadable for a comma that could be either."""
    if delimiter not in ";|":
        return list(rows)
    texts = [text for row in rows for text, *_ in row]
    if delimiter == ";" and any(map(_is_certain, texts)) and not any(map(_speaks_against, texts)):
        return [[(_with_points(text), *place) for text, *place in row] for row in rows]
    for row in rows:
        for text, line, at in row:
            if COMMA.match(text):
                raise Unreadable(source, line, at, comma(text))
    return list(rows)


def _is_certain(text: str) -> bool:
    """Return whether the comma of a number can part no thousands: `1,5`, `0,281`, `2048,125`, `1.234,567`."""
    found = WITH_COMMA.match(text)
    if not found:
        return False
    whole, behind = found["whole"], found["behind"]
    return len(behind) != 3 or whole.startswith("0") or len(whole) > 3


def _speaks_against(text: str) -> bool:
    """Return whether a number has a decimal point, or thousands that commas part."""
    return bool(WITH_POINT.fullmatch(text) or THOUSANDS_BY_COMMAS.match(text))


def _with_points(text: str) -> str:
    """Return a cell that begins with a number with points in place of the commas of its numbers."""
    if not re.match(rf"\s*{SIGN}\d", text):
        return text
    return NUMBER.sub(lambda found: found[0].replace(".", "").replace(",", "."), text)
