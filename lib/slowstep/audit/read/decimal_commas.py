"""Numbers with decimal commas, `412,5` and `1.234,5`, in tables.

One number that can be read in no other way tells how all of them are written, unless another one speaks against it.
Where none does, the comma is asked about. Where no semicolons part the cells, as a spreadsheet with decimal commas
writes them, that one is a figure by its header, or stands in a column of such numbers: `0,1` may be a list of devices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slowstep.audit.figures import COMMA, comma
from slowstep.audit.read.columns import MEASURED, column, plain
from slowstep.audit.read.measures import is_measure
from slowstep.audit.read.source_text import Unreadable
from slowstep.audit.relations import COUNTS

Cell = tuple[str, int, int]

FILE_DELIMITERS = (";", "|")
"""What parts the cells of files in which a comma is no delimiter."""

SIGN = r"[~≈<>]?\s?[-+−]?"
WITH_COMMA = re.compile(rf"\s*{SIGN}(?P<whole>\d{{1,3}}(?:\.\d{{3}})+|\d+),(?P<behind>\d+)(?![\d,.])")
WITH_POINT = re.compile(rf"\s*{SIGN}(?:0\.\d+|\d{{4,}}\.\d+|\d+\.(?:\d{{1,2}}|\d{{4,}}))[^\d.,]*")
THOUSANDS_BY_COMMAS = re.compile(rf"\s*{SIGN}\d{{1,3}}(?:,\d{{3}})+(?:\.\d+|,\d{{3}})")
NUMBER = re.compile(r"(?<![\d.,])(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?(?![\d,]|\.\d)")


def with_decimal_points(rows: Sequence[list[Cell]], delimiter: str, source: str) -> list[list[Cell]]:
    """Return the rows with decimal points in place of commas. A file whose cells commas part has none.

    Unreadable for a comma that could be either where semicolons or bars part the cells of a file.
    """
    if delimiter == ",":
        return list(rows)
    texts = [plain(text) for row in rows for text, *_ in row]
    telling = texts if delimiter == ";" else list(_figures(rows))
    if any(map(_is_certain, telling)) and not any(map(_speaks_against, texts)):
        return [[(_with_points(text), *place) for text, *place in row] for row in rows]
    for row in rows if delimiter in FILE_DELIMITERS else ():
        for text, line, at in row:
            if COMMA.match(text):
                raise Unreadable(source, line, at, comma(text))
    return list(rows)


def _figures(rows: Sequence[list[Cell]]) -> Iterator[str]:
    """Yield the cells of what is measured by the header of their column, the first cell of their line or their unit.

    A column whose numbers all have a comma, one of them with two digits behind it, is measured whatever its header is.
    """
    header, *body = rows or [[]]
    wide = [[plain(row[i][0]) for row in body if i < len(row)] for i in range(len(header))]
    named = [_is_measured(text) or _are_decimals(cells) for (text, *_), cells in zip(header, wide, strict=True)]
    for row in body:
        in_line = bool(row) and _is_measured(row[0][0])
        for i, (text, *_) in enumerate(row):
            if in_line or (i < len(named) and named[i]) or is_measure(text):
                yield plain(text)


def _are_decimals(cells: Sequence[str]) -> bool:
    return len(cells) > 1 and all(map(_is_certain, cells)) and any(re.search(r",\d\d\b", text) for text in cells)


def _is_measured(header: str) -> bool:
    held = column(header, set())
    return held.kind in MEASURED and held.name not in COUNTS


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
    if not re.match(rf"[\s*_]*{SIGN}\d", text):
        return text
    return NUMBER.sub(lambda found: found[0].replace(".", "").replace(",", "."), text)
