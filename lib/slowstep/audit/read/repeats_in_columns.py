"""Tables with a column for each repeat of a measurement, `run 1 (s/it)` and `run 2 (s/it)`, as a row for each."""

from __future__ import annotations

import re

from slowstep.audit.read.cells import Table
from slowstep.audit.read.columns import LABELS, MEASURED, column, plain
from slowstep.audit.read.runs_in_columns import with_row_each

WHICH = r"(?:run|rep(?:eat|etition)?|trial|seed|try|attempt)s?[ _]?#?\d{1,6}"
FIRST = re.compile(rf"{WHICH}[\s:,-]*(?P<what>\S.*)", re.IGNORECASE)
LAST = re.compile(rf"(?P<what>.*\S)[\s:,-]+[(\[]?{WHICH}[)\]]?", re.IGNORECASE)


LONGEST = 100
"""The most characters of such a header."""


def with_repeats_in_rows(table: Table) -> Table:
    """Return a table whose columns repeat one measurement with a row for each; any other table as it is.

    The rows of one name are repeats then. Where no column names them, they are called by the first one, or numbered.
    """
    header, *body = table
    if any(len(row) != len(header) for row in body):
        return table
    called = {i: what for i, (name, *_) in enumerate(header) if (what := _what(plain(name)))}
    if len(called) < 2 or len({what.lower() for what in called.values()}) > 1:
        return table
    others = [i for i in range(len(header)) if i not in called]
    named = any(plain(header[i][0]).lower() in LABELS for i in others)
    names = [plain(row[0][0]) if 0 in others else "" for row in body]
    first, behind = next(iter(called)), len(header)
    header = [*((called[first] if i in called else name, *place) for i, (name, *place) in enumerate(header))]
    header = [*header, ("run", *header[0][1:])]
    body = [
        [*row, (name or f"row {at}", *row[0][1:])] for at, (row, name) in enumerate(zip(body, names, strict=True), 1)
    ]
    return with_row_each(header, body, [*([] if named else [behind]), *others], {str(i): [i] for i in called}, "")


def _what(header: str) -> str:
    """Return what is measured by a header that says which repeat it is of; empty for another header."""
    match = (FIRST.fullmatch(header) or LAST.fullmatch(header)) if len(header) < LONGEST else None
    what = re.sub(r"^[(\[](.*)[)\]]$", r"\1", match["what"].strip()) if match else ""
    return what if what and column(what, set()).kind in MEASURED else ""
