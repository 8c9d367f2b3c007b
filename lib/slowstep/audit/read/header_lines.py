"""Tables with two lines of headers: units below names, or the headers of single columns below those of groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from slowstep.audit.read.cells import Cell, Table
from slowstep.audit.read.columns import OTHERS, is_number, plain
from slowstep.audit.read.group_lines import GROUP
from slowstep.audit.read.runs_in_columns import with_row_each
from slowstep.audit.read.unit_grammar import TIMES, ratio


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
