"""Lines of a table that hold one text alone: headings of the rows below them, and notes below all rows."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.audit.read.cells import Cell, Table
from slowstep.audit.read.columns import plain
from slowstep.audit.read.unknown_columns import is_word

GROUP = "group"
"""The header of the column into which such headings are turned."""

MARKED = ("*", "_", "<b", "<i")
"""What a text that is set apart from those of the rows begins with."""


def with_groups_named(table: Table) -> Table:
    """Return a table with headings of groups of rows as a column, and without notes below its rows.

    A line of one text is a heading if it is the first one, or set apart by its type; a name without figures is none.
    """
    header, *body = table
    alone = [_alone(row, len(header)) for row in body]
    headings = [bool(text) for text in alone]
    if not any(headings) or all(headings) or not _are_set_apart(body, headings, len(header)):
        return table
    last = max(i for i, heading in enumerate(headings) if not heading)
    found: list[list[Cell]] = []
    group = ""
    for row, text in zip(body[: last + 1], alone, strict=False):
        group = text or group
        found += [] if text else [[(group, *row[0][1:]), *row]]
    if not any(headings[:last]):
        return [header, *body[: last + 1]]
    return [[(GROUP, *header[0][1:]), *header], *found]


def _alone(row: Sequence[Cell], wide: int) -> str:
    """Return the text of a line that holds no other one, also where its cell spans all columns; else nothing."""
    texts = [plain(text) for text, *_ in row]
    said = {text for text in texts if text}
    spans = len(texts) == wide > 1 and len(said) == 1 and "" not in texts
    single = len(said) == 1 and texts[0] and len([text for text in texts if text]) == 1
    return texts[0] if wide > 1 and (spans or single) and is_word(texts[0]) else ""


def _are_set_apart(body: Table, headings: Sequence[bool], wide: int) -> bool:
    """Return whether the lines of one text are no runs: the first line is one, or all are marked and no row is.

    A first line that is not marked and ends before the last column may as well be one that was cut off.
    """
    marked = [row[0][0].lstrip().startswith(MARKED) or len({text for text, *_ in row}) == 1 < len(row) for row in body]
    own = [mark for mark, heading in zip(marked, headings, strict=True) if heading]
    first = headings[0] and (marked[0] or len(body[0]) == wide)
    return first or (all(own) and sum(marked) == len(own))
