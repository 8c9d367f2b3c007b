"""Rows of a table that are not of a whole run: of one that broke off, or of one process of several."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from slowstep.audit.read.cells import Cell, bare, by_column
from slowstep.audit.read.columns import plain
from slowstep.audit.read.measures import number

STATES = {"state", "status", "result"}
BROKE_OFF = re.compile(
    r"crash(?:ed)?|fail(?:ed|ure)?|killed|aborted|cancell?ed|preempted|time-?out|timed out|interrupted|error",
    re.IGNORECASE,
)
"""Columns that say how a run ended, and cells of runs that did not come to their end."""

OF_A_PROCESS = re.compile(
    r"(?:(?:global|local)[ _]?)?rank|(?:gpu|device|process|worker|node)(?:[ _]?(?:id|idx|index))?|#?gpu"
)
"""Columns whose numbers, from 0 on, may be those of the processes of one run."""

END = 1 << 13
"""The bytes at the end of a log in which an error is looked for."""

ERROR = re.compile(
    r"^(?:.*?\]:? ?)?(?P<said>(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt)\b[^\r\n]{0,100}|"
    r"(?:slurmstepd: error: .{0,60}CANCELLED|Killed\b|Segmentation fault|Bus error)[^\r\n]{0,60})",
    re.MULTILINE,
)
"""The last words of a program that did not come to its end."""


def broken_off(header: Sequence[Cell], body: Sequence[Sequence[Cell]]) -> dict[int, str]:
    """Return the rows whose run did not come to its end by a column, each with the word that says so."""
    columns = [i for i, cell in enumerate(header) if bare(plain(cell[0])) in STATES]
    words = {at: plain(cells[columns[0]][0]) for at, cells in enumerate(body)} if columns else {}
    return {at: word for at, word in words.items() if BROKE_OFF.fullmatch(word)}


def of_processes(header: Sequence[Cell], body: Sequence[Sequence[Cell]]) -> str:
    """Return the column whose numbers may be those of the processes of one run; empty for none.

    They begin at 0 and leave none out.
    """
    for (name, *_), texts in zip(header, by_column(header, body), strict=True):
        ranks = {number(text) for text in map(plain, texts)}
        if OF_A_PROCESS.fullmatch(bare(plain(name))) and len(ranks) > 1 and ranks == {*map(float, range(len(ranks)))}:
            return plain(name)
    return ""


def last_error(path: Path) -> str:
    """Return the error that a log ends with; empty if it ends with none."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - END))
        text = file.read().decode("utf-8", "replace")
    errors = [found["said"].strip() for found in ERROR.finditer(text)]
    return errors[-1] if errors and ("Traceback (most recent" in text or "Error" not in errors[-1]) else ""
