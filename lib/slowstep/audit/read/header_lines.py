"""Tables with two lines of headers, or with lines of one text alone: headings of the rows below, and notes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from slowstep.audit.read.cells import Cell, Table
from slowstep.audit.read.columns import OTHERS, is_number, plain
from slowstep.audit.read.runs_in_columns import with_row_each
from slowstep.audit.read.unit_grammar import TIMES, ratio
from slowstep.audit.read.unknown_columns import is_word

GROUP = "group"
"""The header of the column into which such headings are turned."""

MARKED = ("*", "_", "<b", "<i")
"""What a text that is set apart from those of the rows begins with."""


def with_one_header(table: Table) -> Table:
    """Return a table with a second line of headers as a part of the first one; another table as it is."""
    header, *body = table
    below = [plain(cell[0]) for cell in body[0]] if len(body) > 1 else []
    if not any(below) or len(below) != len(header):
        return table
    if all(_is_unit(unit) for unit in below if unit):
        return [[(f"{n} ({u})" if u else n, *place) for (n, *place), u in zip(header, below, strict=True)], *body[1:]]
    over = _filled([plain(cell[0]) for cell in header], below)
    if any(map(is_number, below)) or not any(is_number(text) for text, *_ in body[1][1:]) or not _spans(over, below):
        return table
    return _joined(header, over, below, body[1:])


def _joined(header: Sequence[Cell], over: Sequence[str], below: Sequence[str], body: Table) -> Table:
    """Return a table with the headers of groups in those of their columns.

    Where the same ones stand below each group, these are groups of runs, and each row is one of each group.
    """
    places = range(len(header))
    single = [i for i in places if over[i] in ("", below[i]) or not below[i]]
    each = {name: [i for i in places if over[i] == name and i not in single] for name in over}
    groups = {name: at for name, at in each.items() if at}
    names = [(below[i] or over[i]) if i in single else f"{over[i]} {below[i]}" for i in places]
    if len(groups) > 1 and len({tuple(below[i] for i in at) for at in groups.values()}) == 1:
        own = [(names[i] if i in single else below[i], *header[i][1:]) for i in places]
        return with_row_each(own, body, single, groups, GROUP)
    return [[(name, *cell[1:]) for name, cell in zip(names, header, strict=True)], *body]


def _filled(names: Sequence[str], below: Sequence[str]) -> list[str]:
    """Return the headers of groups of columns over each of them: in Markdown one stands over the first alone."""
    filled: list[str] = []
    for name, own in zip(names, below, strict=True):
        filled.append(filled[-1] if filled and not name and own else name)
    return filled


def _spans(over: Sequence[str], below: Sequence[str]) -> bool:
    """Return whether a header stands over several columns with headers of their own."""
    return any(a == b and a and x != y for (a, x), (b, y) in pairwise(zip(over, below, strict=True)))


def _is_unit(text: str) -> bool:
    said = text.strip("()[]").lower()
    return said in TIMES or ratio(said) is not None or any(said in units for units in OTHERS.values())


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
