"""Tables that hold a change beside what changed: a row or a column of changes, and cells `212 ms → 178 ms`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slowstep.audit.read.cells import Cell, Table
from slowstep.audit.read.columns import MEASURED, NOTHING, column, is_number, plain
from slowstep.audit.run import QUESTIONS

CHANGE = re.compile(
    r"(?P<arrow>[↑↓⬆⬇]?)\s?[~≈]?\s?(?P<size>(?P<sign>[-+−–]?)\d[\d.,]*\s*(?P<unit>%|[x×]|pp))"
    r"(?:\s?(?P<word>faster|slower|less|more|higher|lower|fewer|shorter|better|speed-?up))?\s?(?P<behind>[↑↓⬆⬇]?)",
    re.IGNORECASE,
)
"""A cell that says how two others differ."""

OF_CHANGES = re.compile(
    r"\b(?:change|improve\w*|delta|diff(?:erence)?|speed-?ups?|gains?|reductions?|savings?|ratio|vs\.?|relative)\b|Δ",
    re.IGNORECASE,
)
"""The name of a row or a column of changes."""

ARROW = re.compile(r"(?P<before>[^→⟶⇒>]{1,40}?)\s*(?:→|⟶|⇒|-+>|=>)\s*(?P<after>[^→⟶⇒>]{1,40})")
UNIT = re.compile(r"[\d.,]+\s*[kKMB]?\s*(?P<unit>[a-zA-Zµ%][\w/ %]*)$")

SPEED_UP, OF_TIME = "speedup", "Δ time"
"""The headers of the columns into which changes are turned."""


def is_change(text: str) -> bool:
    """Return whether a cell says how two others differ."""
    return bool(CHANGE.fullmatch(plain(text)))


def are_changes(name: str, cells: Sequence[str]) -> bool:
    """Return whether cells say nothing but changes, which their name may tell or their signs."""
    said = [found for text in cells if plain(text).lower() not in NOTHING for found in [CHANGE.fullmatch(plain(text))]]
    if not said or None in said:
        return False
    return bool(OF_CHANGES.search(plain(name))) or all(found["sign"] or found["word"] for found in said)


def with_changes_apart(table: Table) -> Table:
    """Return the table without its row of changes, which stand in columns of the second row if there are just two."""
    header, *body = table
    if len(body) < 2 or any(len(row) != len(header) for row in body):
        return table
    changes = [row for row in body[1:] if _is_of_changes(row, header, body[0])]
    if len(changes) != 1:
        return table
    rows = [row for row in body if row is not changes[0]]
    named = list(zip(header, changes[0], strict=True))[1:]
    return with_stated([header, *rows], [(plain(name[0]), plain(cell[0])) for name, cell in named])


def _is_of_changes(row: Sequence[Cell], header: Sequence[Cell], first: Sequence[Cell]) -> bool:
    """Return whether a row says nothing but changes, one of a figure at least that the `first` row measured."""
    if not are_changes(row[0][0], [cell[0] for cell in row[1:]]):
        return False
    each = zip(header[1:], row[1:], first[1:], strict=True)
    return any(
        is_change(text) and not is_change(measured) and column(name, set()).kind in MEASURED
        for (name, *_), (text, *_), (measured, *_) in each
    )


def with_stated(table: Table, changes: Sequence[tuple[str, str]]) -> Table:
    """Return a table of two runs with columns of the changes from the first to the second; any other table as it is.

    A change is that of a figure, which is named before it. Those that could be of more or less are left out.
    """
    header, *body = table
    if len(body) != 2:
        return table
    stated: dict[str, str] = {}
    for name, text in changes:
        into, cell = _stated(name, text)
        stated.setdefault(into, cell)
    stated.pop("", None)
    for into, cell in stated.items():
        if into in [plain(name[0]) for name in header]:
            continue
        header = [*header, (into, *header[0][1:])]
        body = [[*row, (text, *row[0][1:])] for row, text in zip(body, ("-", cell), strict=True)]
    return [header, *body]


def _stated(name: str, text: str) -> tuple[str, str]:
    """Return the header and the cell that state a change of a figure; empty texts where it is not clear."""
    held, found = column(name, set()), CHANGE.fullmatch(text)
    if not found or held.kind not in ("figure", "timed"):
        return "", ""
    of_time, of_speed = held.name.startswith("seconds"), "_per_second" in held.name
    size = found["size"].replace("−", "-").replace("–", "-")
    if found["unit"] in ("x", "×") and not found["sign"]:
        faster = of_speed or (found["word"] or "").lower() in ("faster", "speedup", "speed-up")
        return (SPEED_UP, size) if faster else ("", "")
    if found["unit"] != "%" or not found["sign"] or found["word"]:
        return "", ""
    return (OF_TIME, size) if of_time else (SPEED_UP, size) if of_speed else ("", "")


def with_arrows_apart(table: Table) -> Table:
    """Return the table with two rows for each whose figures are those before and after a change: `212 ms → 178 ms`."""
    header, *body = table
    speeds = [i for i, (name, *_) in enumerate(header) if i and _may_be_speed(name)]
    if any(len(row) != len(header) for row in body) or not any(_arrow(row[i][0]) for row in body for i in speeds):
        return table
    found = [header]
    for row in body:
        if not any(_arrow(row[i][0]) for i in speeds):
            found.append(row)
            continue
        for which in ("before", "after"):
            (name, *place), *cells = row
            found.append([(f"{plain(name)} ({which})", *place), *((_end(text, which), *at) for text, *at in cells)])
    return found


def _may_be_speed(header: str) -> bool:
    """Return whether a header says that figures are below it, or a speed whose unit stands in the cells."""
    held = column(header, set())
    return held.kind in MEASURED or held.name in QUESTIONS


def _arrow(text: str) -> re.Match[str] | None:
    """Return both ends of a change in a cell; None for a cell of another kind, such as one of words."""
    found = ARROW.fullmatch(plain(text))
    return found if found and all(is_number(found[end]) for end in ("before", "after")) else None


def _end(text: str, which: str) -> str:
    """Return one end of a change, with the unit of the other one if it has none; any other cell as it is."""
    found = _arrow(text)
    if not found:
        return text
    end, other = found[which].strip(), found["after" if which == "before" else "before"].strip()
    unit = UNIT.search(other)
    bare = re.fullmatch(r"[~≈]?\s?\d[\d.,]*\s*[kKMB]?", end)
    return f"{end} {unit['unit']}" if bare and unit else end
