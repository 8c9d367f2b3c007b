"""Rows of one name whose figures are too far apart for repeats, and that remarks tell apart: notes, commits, hosts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

OF_CHANGES = re.compile(
    r"\b(?:notes?|comments?|remarks?|commits?|sha|revision|branch|descr\w*|changes?|what)\b", re.IGNORECASE
)
"""Headers of columns that may say what was changed. Others, such as hosts, say where or when a repeat was made."""

CHANGED = 1.1
"""The ratio from which on figures are no repeats where such a column differs. Beyond it no noise of a pace lies that
an author would leave without a word."""

Row = dict[str, Any]
Alike = Callable[[Sequence[Row], float], bool]


def apart_by_remarks(group: Sequence[Row], alike: Alike, far: float) -> list[Row]:
    """Return the rows that may be repeats of one measurement, each with its remarks in its name if they are none.

    `alike` says whether the figures of rows are at most a ratio apart, which is `far` where only such remarks differ
    that say where or when a row was measured.
    """
    names = [name for name in dict.fromkeys(n for row in group for n in row["told"]) if _differs(name, group)]
    changes = [name for name in names if OF_CHANGES.search(re.sub(r"[_-]+", " ", name))]
    if not names or alike(group, CHANGED if changes else far):
        return list(group)
    each = [[row["told"][name] for name in changes or names if name in row["told"]] for row in group]
    return [row | {"label": " ".join([row["label"], *words])} for row, words in zip(group, each, strict=True)]


def _differs(name: str, group: Sequence[Row]) -> bool:
    return len({row["told"].get(name) for row in group}) > 1
