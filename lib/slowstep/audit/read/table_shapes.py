"""Tables of other shapes, turned into one row a run: a chart's export, figures or phases in lines, cells at the end.

Each other shape has a module: changes beside what changed (`before_and_after.py`), headings of rows and two lines of
headers (`header_lines.py`), runs and repeats in columns (`runs_in_columns.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from slowstep.audit.read.before_and_after import (
    are_changes,
    is_change,
    with_arrows_apart,
    with_changes_apart,
    with_stated,
)
from slowstep.audit.read.cells import Table, bare
from slowstep.audit.read.columns import NOTHING, OUT_OF_MEMORY, TIMED_WORDS, column, is_number, plain
from slowstep.audit.read.courses import POSITIONS
from slowstep.audit.read.header_lines import with_groups_named, with_one_header
from slowstep.audit.read.runs_in_columns import with_repeats_in_rows, with_runs_in_rows
from slowstep.audit.read.unit_grammar import TIMES

BEHIND = r"(?: (?:time|pass|step|wait(?:ing)?|load(?:ing|er)?|fetch(?:ing)?|stall|update))*"
PHASES = {
    "data": re.compile(rf"data ?(?:load(?:ing|er)?)?{BEHIND}|(?:batch )?fetch(?:ing)?{BEHIND}|input(?: pipeline)?"),
    "forward": re.compile(rf"(?:forward|fwd){BEHIND}"),
    "backward": re.compile(rf"(?:backward|bwd){BEHIND}"),
    "optimizer": re.compile(rf"(?:optimi[sz]er|optim|opt){BEHIND}"),
    "step": re.compile(r"(?:total|sum|whole)(?: (?:step|iteration|iter))?(?: time)?|(?:step|iteration)(?: time)?"),
}
"""What the lines time, by their names."""

FEWEST = 2
"""The number of phases from which on the lines of a table are those of a step."""

UNIT = re.compile(
    r"\s*[(\[,]\s*(?:in )?([a-zµμ]+)(?: ?/ ?(?:step|it|iter))?\s*[)\]]?$|(?<!\S)(ms|us|µs|μs|msec|sec)$", re.IGNORECASE
)
"""The unit at the end of a header."""

OF_A_SHARE = re.compile(r"%|\b(?:share|percent\w*|fraction|calls|count)\b", re.IGNORECASE)
"""Words of columns that say no time."""


CHART = re.compile(r"(?P<run>.+?) - (?P<metric>.+?)(?P<end>__(?:MIN|MAX))?")
"""A header of the export of one of W&B's charts: the run, the metric, and whether it is an end of a smoothed range."""


def reshaped(table: Table, given: Mapping[str, str]) -> Table:
    """Return a table with a header and a row a run; one that has this shape stays as it is.

    Headers that are `given` a meaning leave the table as it is.
    """
    table = _without_empty_ends(table)
    if any(plain(cell[0]) in given for cell in table[0]):
        return table
    table = with_repeats_in_rows(with_one_header(with_groups_named(table)))
    table = with_arrows_apart(_transposed(with_runs_in_rows(with_phases_named(table))))
    return _of_chart(with_changes_apart(table))


def _without_empty_ends(table: Table) -> Table:
    """Return the table without empty cells behind the last column, which a delimiter at the end of a line makes."""
    header, *body = table
    wide = len(header)
    return [header, *(r[:wide] if len(r) > wide and not any(c[0].strip() for c in r[wide:]) else r for r in body)]


def _transposed(table: Table) -> Table:
    """Return the table with its lines as columns if these are figures by name, and its columns are none."""
    header, *body = table
    if any(len(row) != len(header) for row in body) or len(header) < 2:
        return table
    named = [column(cell[0], set()).kind in ("figure", "timed", "phase") for cell in header]
    lines = [column(row[0][0], set()).kind in ("figure", "timed", "phase") for row in body]
    texts = [[row[i][0] for row in body] for i in range(len(header))]
    changes = [i for i in range(2, len(header)) if are_changes(header[i][0], texts[i]) or all(map(is_change, texts[i]))]
    runs = [i for i in range(1, len(header)) if i not in changes]
    cells = [row[i][0] for row, figure in zip(body, lines, strict=True) if figure for i in runs]
    numbers = [is_number(text) for text in cells]
    fit = all(number or _says_nothing(text) for text, number in zip(cells, numbers, strict=True))
    if any(named) or not any(numbers) or not fit:
        return table
    first = [("run", *header[0][1:]), *(row[0] for row in body)]
    found = [first, *([header[i], *(row[i] for row in body)] for i in runs)]
    if len(changes) != 1:
        return found
    return with_stated(found, [(plain(row[0][0]), plain(row[changes[0]][0])) for row in body])


def _says_nothing(text: str) -> bool:
    """Return whether a cell in a line of figures holds none: it is empty, or the run was out of memory."""
    return plain(text).lower() in NOTHING or bool(OUT_OF_MEMORY.search(plain(text)))


def _of_chart(table: Table) -> Table:
    """Return the export of a chart with a column for the run, and one for each metric."""
    header, *body = table
    each = [CHART.fullmatch(plain(cell[0])) for cell in header[1:]]
    if bare(plain(header[0][0])) not in POSITIONS or not each or not all(each):
        return table
    kept = [(i, found["run"], bare(found["metric"])) for i, found in enumerate(each, 1) if not found["end"]]
    metrics = list(dict.fromkeys(metric for _, _, metric in kept))
    place = header[0][1:]
    found = [[("run", *place), header[0], *((metric, *place) for metric in metrics)]]
    for run in dict.fromkeys(run for _, run, _ in kept):
        columns = {metric: i for i, own, metric in kept if own == run}
        for row in body:
            if len(row) == len(header):
                own = [row[columns[m]] if m in columns else ("", *row[0][1:]) for m in metrics]
                found.append([(run, *row[0][1:]), row[0], *own])
    return found


def with_phases_named(table: Table) -> Table:
    """Return a table of phases in lines with the unit of its times in the name of each line; another one as it is.

    The unit stands in the headers of the runs, in that of the phases, or in each cell. Columns of shares are left out.
    """
    header, *body = table
    called = [_called(row[0][0]) for row in body]
    known = [name for name in called if name]
    if any(len(row) != len(header) for row in body) or len({*known} - {"step"}) < FEWEST or len({*known}) < len(known):
        return table
    columns = [i for i in range(1, len(header)) if not OF_A_SHARE.search(plain(header[i][0]))]
    runs = [i for i in columns if not are_changes(header[i][0], [row[i][0] for row in body])]
    units = {_unit(header[i][0]) for i in runs}
    unit = units.pop() if len(units) == 1 else ""
    if not unit and not units:
        unit = _unit(header[0][0]) or ("s" if all(_unit(row[i][0]) for row in body for i in runs) else "")
    if not unit:
        return table
    names = [(_run_name(header[i][0]) if i in runs else header[i][0], *header[i][1:]) for i in columns]
    lines = [
        [(f"{name or plain(row[0][0])} ({unit})", *row[0][1:]), *(row[i] for i in columns)]
        for name, row in zip(called, body, strict=True)
    ]
    return [[header[0], *names], *lines]


def _called(name: str) -> str:
    """Return the phase that the name of a line calls, or 'step' for the whole one; empty for another line."""
    said = re.sub(r"[_\s-]+", " ", plain(name).lower()).strip(" .:")
    return next((phase for phase, words in PHASES.items() if words.fullmatch(said)), "")


def _unit(text: str) -> str:
    """Return the unit of time at the end of a header or a cell; empty if there is none."""
    found = UNIT.search(plain(text)) or re.search(r"\d\s?([a-zµμ]+)$()", plain(text))
    unit = (found[1] or found[2] or "").lower() if found else ""
    return unit if unit in TIMES else ""


def _run_name(header: str) -> str:
    """Return a header without its unit; empty if it only says that times are below it."""
    name = UNIT.sub("", plain(header)).strip()
    return "" if name.lower() in TIMED_WORDS else name
