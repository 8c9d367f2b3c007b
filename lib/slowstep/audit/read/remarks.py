"""Rows of one name whose figures are too far apart for repeats, and that remarks tell apart: notes, commits, hosts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

OF_CHANGES = re.compile(
    r"\b(?:notes?|comments?|remarks?|commits?|sha|revision|branch|descr\w*|changes?|what)\b", re.IGNORECASE
)
"""Headers of columns that may say what was changed. Others, such as hosts, say where or when a repeat was made."""

OF_VERSIONS = re.compile(r"\b(?:commits?|sha|revision|branch)\b", re.IGNORECASE)
"""Headers of columns whose cells name a change, whatever they say."""

OF_REPEATS = re.compile(
    r"\b(?:again|once more|(?:re)?tr(?:y|ies)|re-?runs?|repeat\w*|attempts?|seeds?|(?:first|second|third|last) run|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|morning|evening|night|yesterday|today)\b",
    re.IGNORECASE,
)
"""Words of a remark that says how or when a repeat was made, and names no change."""

CHANGED = 1.1
"""The ratio from which on figures are no repeats where such a column names changes. Beyond it no noise of a pace lies
that an author would leave without a word."""

Row = dict[str, Any]
Alike = Callable[[Sequence[Row], float], bool]


def apart_by_remarks(group: Sequence[Row], alike: Alike, far: float) -> list[Row]:
    """Return the rows that may be repeats of one measurement, each with its remarks in its name if they are none.

    `alike` says whether the figures of rows are at most a ratio apart, which is `far` where only such remarks differ
    that say where or when a row was measured.
    """
    names = [name for name in dict.fromkeys(n for row in group for n in row["told"]) if _differs(name, group)]
    changes = [name for name in names if _names_changes(name, group)]
    if not names or alike(group, CHANGED if changes else far):
        return list(group)
    each = [[row["told"][name] for name in changes or names if name in row["told"]] for row in group]
    return [row | {"label": " ".join([row["label"], *words])} for row, words in zip(group, each, strict=True)]


def _names_changes(name: str, group: Sequence[Row]) -> bool:
    header = re.sub(r"[_-]+", " ", name)
    told = [row["told"].get(name, "") for row in group]
    repeats = all(OF_REPEATS.search(words) for words in told if words)
    return bool(OF_VERSIONS.search(header) or (OF_CHANGES.search(header) and not repeats))


def _differs(name: str, group: Sequence[Row]) -> bool:
    return len({row["told"].get(name) for row in group}) > 1
