"""Text above tables: headings, and units of tables with one figure for each row and column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from slowstep.audit.read.cells import Cell, Table
from slowstep.audit.read.columns import MEASURED, NOTHING, OUT_OF_MEMORY, Column, column, is_number, plain
from slowstep.audit.read.other_work import OF_TRAINING
from slowstep.audit.read.runs_in_columns import NAMES, parted, with_row_each
from slowstep.audit.read.unknown_columns import may_be_setting
from slowstep.audit.run import TIMED

CORNER = re.compile(r"(?P<rows>[^\\/]{1,40}?)\s*\\+\s*(?P<columns>[^\\/]{1,40})")
"""A corner that calls what stands below it and beside it: `Seq len \\ Micro batch`."""

PART = re.compile(r"[,.;:](?=\s|$)|[()\[\]]|\s[-–—]\s")
"""What parts the statements of a caption: `Table 3: Step time in ms (batch 16), lower is better`."""

LONGEST = 200
"""The most characters of a line that is a caption."""


HEADING = re.compile(r"\s{0,3}#{1,6}\s+(?P<text>\S.*?)\s*#*\s*|\s{0,3}\*\*(?P<bold>[^*|]{1,100})\*\*:?\s*")
OF_INFERENCE = re.compile(
    r"(?<![a-z])(?:inference|serving|generation|decod(?:e|ing)|prefill|latency)(?![a-z])", re.IGNORECASE
)

LONGEST_HEADING = 100
"""The most characters of a heading that is shown."""


def with_units_of_captions(tables: Sequence[Table], text: str, given: Mapping[str, str]) -> list[Table]:
    """Return the tables, and those of one figure with a row for each of their cells and its unit in the header.

    Headers that are `given` a meaning leave a table as it is.
    """
    lines = text.splitlines()
    return [
        table if any(plain(cell[0]) in given for cell in table[0]) else _with_unit(table, lines[: table[0][0][1] - 1])
        for table in tables
    ]


def _with_unit(table: Table, above: Sequence[str]) -> Table:
    header, *body = table
    if len(header) < 3 or any(len(row) != len(header) for row in body):
        return table
    in_lines = [parted(plain(row[0][0])) for row in body]
    same = {found[1] for found in in_lines if found} if all(in_lines) else set()
    if len(same) == 1 and len(body) > 1:
        header = [(same.pop().strip("()"), *header[0][1:]), *header[1:]]
        body = [[(run, *row[0][1:]), *row[1:]] for (run, _), row in zip(filter(None, in_lines), body, strict=True)]
    if not _is_of_one_figure(header, body):
        return table
    name, *place = header[0]
    units, corner = _units(plain(name)) or _units_above(above), CORNER.fullmatch(plain(name))
    if len(units) != 1:
        return table
    unit = next(iter(units.values()))
    rows, columns = (corner["rows"], corner["columns"]) if corner else ("" if unit == plain(name) else name, NAMES)
    groups = {plain(own): [i] for i, (own, *_) in enumerate(header) if i}
    return with_row_each([(rows, *place), *((unit, *place) for _ in header[1:])], body, [0], groups, columns)


def _is_of_one_figure(header: Sequence[Cell], body: Table) -> bool:
    """Return whether all cells are bare numbers, or say that there is none, below headers and beside names of words."""
    by_number = bool(CORNER.fullmatch(plain(header[0][0])))
    named = [plain(cell[0]) for cell in (*header[1:], *(row[0] for row in body))]
    cells = [plain(text) for row in body for text, *_ in row[1:]]
    numbers = [text for text in cells if is_number(text)]
    others = [text for text in cells if text not in numbers]
    return (
        all(name and column(name, set()) == Column("open") and (by_number or not is_number(name)) for name in named)
        and all(may_be_setting(plain(name), "a word") for name, *_ in header[1:])
        and len(numbers) > 1
        and all(re.fullmatch(r"[~≈]?\s?[\d.,]+(?:\s*(?:±|\+/-)\s*[\d.,]+)?\s*[kKMB]?", text) for text in numbers)
        and all(text.lower() in NOTHING or OUT_OF_MEMORY.search(text) for text in others)
    )


def _units(text: str) -> dict[tuple[str, float], str]:
    """Return the speeds and times that parts of a text name, each by its quantity and size with the words."""
    parts = [" ".join(part.split()) for part in PART.split(text)]
    held = [(part, column(part, set())) for part in parts if part]
    return {
        (one.name, one.scale): part
        for part, one in held
        if one.kind in MEASURED and one.kind != "timed" and (one.kind == "phase" or one.name.startswith(TIMED))
    }


def _units_above(lines: Sequence[str]) -> dict[tuple[str, float], str]:
    """Return the units in the last line of text above a table."""
    line = next((line for line in reversed(lines) if line.strip()), "")
    return _units(plain(re.sub(r"^[#>\s]+", "", line))) if len(line) < LONGEST and "|" not in line else {}


def headings_of(text: str, tables: Sequence[Sequence[Sequence[Cell]]]) -> list[str]:
    """Return the heading that stands above each table of a text; empty where there is none."""
    lines = text.splitlines()
    return [_above(lines, table[0][0][1] - 1) for table in tables]


def is_of_inference(heading: str) -> bool:
    """Return whether a heading speaks of inference, and not of training."""
    return bool(OF_INFERENCE.search(heading)) and not OF_TRAINING.search(heading)


def _above(lines: Sequence[str], at: int) -> str:
    short = (line for line in reversed(lines[:at]) if len(line) < 2 * LONGEST_HEADING)
    found = next((match for line in short if (match := HEADING.fullmatch(line))), None)
    return (found["text"] or found["bold"] or "")[:LONGEST_HEADING] if found else ""
