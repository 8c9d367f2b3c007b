"""Rows of a table that are of an evaluation, beside rows of training, as a column such as `phase` says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from slowstep.audit.read.cells import Cell, bare, by_column
from slowstep.audit.read.columns import Column, plain
from slowstep.text.sentences import listed

DEEDS = {"phase", "mode", "split", "stage", "job", "task"}
"""Headers of columns that say what was done. Elsewhere `test` may be the name of a run, and `dev` that of a queue."""

EVALUATION = re.compile(r"eval(?:uat(?:e|ion))?|val(?:id(?:at(?:e|ion))?)?|test(?:ing)?|dev|inference", re.IGNORECASE)
"""Cells of such a column."""

Body = Sequence[Sequence[Cell]]


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
