"""The cells of CSV and Markdown tables, each with its place."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence

from slowstep.audit.read.languages import with_decimal_points, with_english_words
from slowstep.audit.read.measures import number
from slowstep.audit.read.source_text import Unreadable

Cell = tuple[str, int, int]
"""The text of a cell with its line and column, counted from 1."""

Table = Sequence[Sequence[Cell]]
"""The lines of a table, of which the first one is its header."""

DIVIDER = re.compile(r"^(?=.*[|+])\s*(?:\|\s*)?:?-+:?\s*(?:[|+]\s*:?-+:?\s*)*(?:\|\s*)?$")
"""The line under the header of a Markdown table; a cell of it has one hyphen at least. Org and psql write plus signs
between the columns."""

BORDER = re.compile(r"^\s*\+(?:[-=:]+\+)+\s*$")
"""A line of a table that is drawn with signs, `+-----+------+`."""

SAID_DELIMITER = re.compile(r"sep=([,;|\t])[ \t]*\r?\n")
"""The first line of a table that Excel is told its delimiter by."""

BAR = re.compile(r"(?<!\\)\|")
"""What parts the cells of a Markdown table. A bar behind a backslash is a character of its cell."""

MAYBE_THOUSANDS = re.compile(r"([1-9]\d{0,2}\.\d{3})(?:\.\d{3})*")
"""A number whose points may part thousands, and the first two groups of its digits."""

LONGEST_CELL = 1000
"""The characters of a cell that are read. What is longer is no name of a column and no figure, but a prompt, say, and
patterns that are looked for in it would take the square of its length."""

FAR = 8.0
"""How many times as large as a number with a point one without is at least, if the point may part thousands."""


TRACKER_PREFIX = re.compile(
    r"(?:(?:metrics|params|parameters|config|sys|user_attrs)[./ ]|(?:params|user_attrs)_)+(?=\w)", re.IGNORECASE
)
"""The prefix of a header by which a tracker says only what kind of value it logged."""


def without_prefix(header: str) -> str:
    """Return a header without the prefix that a tracker gives it; `train/` may say what was measured, and stays."""
    return header[found.end() :] if (found := TRACKER_PREFIX.match(header)) else header


def bare(header: str) -> str:
    """Return a header in lower case, without the prefix that a tracker gives it."""
    return re.sub(r"^train[./ ]", "", without_prefix(header.lower()))


def holds_table(text: str) -> bool:
    """Return whether a text holds a table that is drawn with dividers or borders."""
    lines = text.splitlines()
    return any(map(DIVIDER.match, lines)) or any(map(BORDER.match, lines))


def tables_in(text: str, source: str) -> list[list[list[Cell]]]:
    """Return the tables of a text that have a header and a row; Unreadable if it is no well-formed CSV."""
    lines, drawn = text.splitlines(), holds_table(text)
    found = [_drawn(table, source) for table in _markdown(lines)] if drawn else [_without_title(_csv(text, source))]
    if not drawn and _delimiter(text)[0] == ";":
        _refuse_unclear_points(found[0], source)
    return [[[(text[:LONGEST_CELL], *at) for text, *at in row] for row in table] for table in found if len(table) > 1]


def _drawn(table: list[list[Cell]], source: str) -> list[list[Cell]]:
    """Return a table that is drawn, with decimal points; Unreadable for points that may part thousands elsewhere."""
    in_english = with_english_words(table)
    found = with_decimal_points(in_english, "", source)
    if in_english is not table:
        _refuse_unclear_points(found, source)
    return found


def _without_title(rows: list[list[Cell]]) -> list[list[Cell]]:
    """Return the rows of a CSV file without what stands before its header: a title, comments.

    A header may begin like a comment (`#,s/it`): it is as wide as the row below, which holds numbers.
    """
    filled = [[i for i, cell in enumerate(row) if cell[0].strip()] for row in rows]
    # a title that a spreadsheet exports is followed by empty cells
    heads = (i for i, row in enumerate(rows) if len(row) > 1 and filled[i] not in ([], [0]))
    wide = next((i for i in heads if not rows[i][0][0].startswith("#")), None)
    if wide is None:
        wide = next((i for i, row in enumerate(rows) if len(row) > 1 and not row[0][0].startswith("#")), 0)
    alike = wide > 0 and len(rows[wide - 1]) == len(rows[wide])
    is_header = alike and any(number(text) is not None for text, *_ in rows[wide])
    return rows[wide - is_header :]


def by_column(header: Sequence[Cell], body: Sequence[Sequence[Cell]]) -> list[list[str]]:
    """Return the texts of each column below its header. Each row has as many cells as the header."""
    return [[row[i][0] for row in body] for i in range(len(header))]


def _markdown(lines: list[str]) -> list[list[list[Cell]]]:
    """Return the tables of the lines of a Markdown text: a header over a divider, and the lines that follow."""
    found = []
    read = 0
    for i, line in enumerate(lines):
        bordered = bool(BORDER.match(line))
        if i <= read or not (bordered or DIVIDER.match(line)) or "|" not in lines[i - 1] or BORDER.match(lines[i - 1]):
            continue
        ends = (n for n in range(i + 1, len(lines)) if DIVIDER.match(lines[n]) or not _in_table(lines[n], bordered))
        body = range(i + 1, next(ends, len(lines)))
        read = body[-1] if body else i
        found.append([_cells(lines[n], n + 1) for n in (i - 1, *body) if not BORDER.match(lines[n])])
    return found


def _in_table(line: str, bordered: bool) -> bool:
    if bordered:  # each line of a drawn table has a border at its left
        return line.lstrip().startswith("|") or bool(BORDER.match(line))
    return "|" in line


def _cells(line: str, line_number: int) -> list[Cell]:
    cells, at = [], 1
    for part in BAR.split(line):
        cells.append((part.strip().replace("\\|", "|"), line_number, at))
        at += len(part) + 1
    return cells[1:-1] if len(cells) > 2 and not cells[0][0] and not cells[-1][0] else cells


def _refuse_unclear_points(rows: Sequence[Sequence[Cell]], source: str) -> None:
    """Raise Unreadable for numbers whose point may part thousands: `1.234` in the column of `987`.

    A table with semicolons may be from a country where the comma is the decimal point. If all numbers of a column are
    written so, their ratios are the same either way.
    """
    for i in range(len(rows[0]) if rows else 0):
        cells = [row[i] for row in rows[1:] if i < len(row)]
        pointed = [cell for cell in cells if re.fullmatch(r"\d+(?:\.\d+)+", cell[0].strip())]
        each = [MAYBE_THOUSANDS.fullmatch(cell[0].strip()) for cell in pointed]
        whole = [int(text) for text in (cell[0].strip() for cell in cells) if re.fullmatch(r"\d{1,9}", text)]
        if not pointed or not whole or not all(each) or max(whole) >= 1000:
            continue
        if max(whole) >= FAR * min(float(found[1]) for found in each):
            text, *place = pointed[0]
            why = f"found '{text}'; does the point part thousands? Write '{text.strip().replace('.', '')}' then"
            raise Unreadable(source, *place, f"{why}, and else '{text.strip()}0'")


def _delimiter(text: str) -> tuple[str, int]:
    """Return what parts the cells of a CSV file, and where its first line begins behind one that says so."""
    # a title or a comment may stand before the header
    first = next((x for x in text.split("\n") if any(d in x for d in ",;\t") and not x.startswith("#")), "")
    head = next((x for x in text.split("\n") if x.strip() and not x.startswith("#")), "")
    delimiter = "|" if "|" in head and not any(d in head for d in ",;\t") else max(",;\t", key=first.count)
    said = SAID_DELIMITER.match(text)
    return (said[1], said.end()) if said else (delimiter, 0)


def _csv(text: str, source: str) -> list[list[Cell]]:
    """Return the rows of a CSV file, with decimal points; Unreadable if it is not well-formed."""
    delimiter, begins = _delimiter(text)
    return with_decimal_points(with_english_words([*_records(text, delimiter, begins, source)]), delimiter, source)


def _records(text: str, delimiter: str, begins: int, source: str) -> Iterator[list[Cell]]:
    reader = csv.reader(io.StringIO(text[begins:]), delimiter=delimiter, strict=True)
    line = before = 1 + bool(begins)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield [(cell, line, i) for i, cell in enumerate(cells, 1)]
            line = reader.line_num + before  # a quoted cell may have several lines
    except csv.Error as error:
        record = "".join(text.splitlines(keepends=True)[line - 1 :])
        opened, ends = _open_quote(record, delimiter)
        if opened is None:
            raise Unreadable(source, line, 1, f"is no well-formed CSV: {error}") from None
        before = record[:opened]
        at = (line + before.count("\n"), opened - before.rfind("\n"))
        closed = f"closed in line {line + record.count(chr(10), 0, ends)}, inside a cell"
        what = closed if ends < len(record) else "never closed"
        why = f"is no well-formed CSV: the quote that opens here is {what}; close it where its cell ends"
        raise Unreadable(source, *at, why) from None


def _open_quote(record: str, delimiter: str) -> tuple[int | None, int]:
    """Return where the quoted cell begins that makes a record malformed CSV, and where its quote is closed too early.

    The first is None if there is no such cell. The second is the record's length if the quote is never closed.
    """
    at = 0
    while at < len(record):
        if record[at] != '"':  # a quote inside a plain cell is a character like others
            at = (
                min((i for i in (record.find(delimiter, at), record.find("\n", at)) if i >= 0), default=len(record)) + 1
            )
            continue
        closed = re.compile(r'(?:[^"]|"")*"(?!")').match(record, at + 1)
        if not closed:
            return at, len(record)
        behind = record[closed.end() : closed.end() + 1]
        if behind not in ("", delimiter, "\n", "\r"):
            return at, closed.end()
        at = closed.end() + 1
    return None, 0
