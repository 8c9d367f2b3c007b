"""Tables with a phase of a step in each line, as profilers print them, turned into lines that name their unit."""

from __future__ import annotations

import re

from slowstep.audit.read.before_and_after import are_changes
from slowstep.audit.read.cells import Table
from slowstep.audit.read.columns import TIMED_WORDS, plain
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
