"""Rows that are not of a whole training: of an evaluation, of a run that broke off, of one process of several."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from slowstep.audit.read.cells import Cell, bare, by_column
from slowstep.audit.read.columns import Column, plain
from slowstep.audit.read.measures import number
from slowstep.text.sentences import listed

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


DEEDS = {"phase", "mode", "split", "stage", "job", "task"}
"""Headers of columns that say what was done. Elsewhere `test` may be the name of a run, and `dev` that of a queue."""

EVALUATION = re.compile(r"eval(?:uat(?:e|ion))?|val(?:id(?:at(?:e|ion))?)?|test(?:ing)?|dev|inference", re.IGNORECASE)
"""Cells of such a column."""

Body = Sequence[Sequence[Cell]]


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


def without_evaluations(header: Sequence[Cell], body: Body) -> tuple[Body, Body, str]:
    """Return the rows without those of an evaluation, these, and a question about them; empty if there are none.

    A table of nothing else stays as it is.
    """
    if any(len(cells) != len(header) for cells in body):
        return body, [], ""
    for (name, *_), texts in zip(header, by_column(header, body), strict=True):
        evaluates = [bool(EVALUATION.fullmatch(plain(text))) for text in texts]
        if bare(plain(name)) in DEEDS and any(evaluates) and not all(evaluates):
            words = dict.fromkeys(plain(text) for text, own in zip(texts, evaluates, strict=True) if own)
            called = listed([f"'{word}'" for word in words], " and ")
            kept, others = (
                [cells for cells, own in zip(body, evaluates, strict=True) if own is wanted] for wanted in (False, True)
            )
            asked = f"Are the rows that '{plain(name)}' calls {called} of an evaluation? They are left out"
            return kept, others, asked
    return body, [], ""


def names_of(rows: Body, held: Sequence[Column], kept: Body) -> Mapping[str, str]:
    """Return the names of rows that were left out and of no row that was kept, each with why."""
    others = {_label(cells, held) for cells in kept}
    why = "its rows are left out, as they are of an evaluation by their table"
    found: dict[str, str] = {}
    for cells in rows:
        label = _label(cells, held)
        words = [plain(text) for text, *_ in cells if EVALUATION.fullmatch(plain(text))]
        found |= {name: why for name in (label, *(f"{label} {word}" for word in words)) if label and name not in others}
    return found


def _label(cells: Sequence[Cell], held: Sequence[Column]) -> str:
    texts = (plain(text) for (text, *_), one in zip(cells, held, strict=True) if one.kind == "label")
    return " ".join(filter(None, texts))
