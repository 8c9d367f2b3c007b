"""Rows of a table that are of an evaluation, beside rows of training, as a column such as `phase` says."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slowstep.audit.read.cells import Cell, by_column
from slowstep.audit.read.columns import plain
from slowstep.text.sentences import listed

TRAINING = re.compile(r"train(?:ing)?", re.IGNORECASE)
EVALUATION = re.compile(r"eval(?:uat(?:e|ion))?|val(?:id(?:at(?:e|ion))?)?|test(?:ing)?|dev|inference", re.IGNORECASE)
"""Cells of a column that says what was done. A run may be called by one of these words, and not by both kinds."""

Body = Sequence[Sequence[Cell]]


def without_evaluations(header: Sequence[Cell], body: Body) -> tuple[Body, str]:
    """Return the rows without those of an evaluation, and what is told of them; an empty text if there are none."""
    if any(len(cells) != len(header) for cells in body):
        return body, ""
    for i, texts in enumerate(by_column(header, body)):
        evaluates = [bool(EVALUATION.fullmatch(plain(text))) for text in texts]
        others = [plain(text) for text, of_evaluation in zip(texts, evaluates, strict=True) if not of_evaluation]
        if any(evaluates) and others and all(map(TRAINING.fullmatch, others)):
            names = dict.fromkeys(plain(text) for text, own in zip(texts, evaluates, strict=True) if own)
            called = listed([f"'{name}'" for name in names], " and ")
            kept = [cells for cells, own in zip(body, evaluates, strict=True) if not own]
            return kept, f"the rows that '{plain(header[i][0])}' calls {called} are of an evaluation, and are left out"
    return body, ""
