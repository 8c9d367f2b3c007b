"""Rows of a table that sum up the others, `Average` and `Total`: they are no runs."""

from __future__ import annotations

import re
import statistics
from collections.abc import Collection, Sequence
from dataclasses import replace

from slowstep.audit.figures import figure
from slowstep.settings.reported import Row

SUMMARY = re.compile(
    r"\W*(?:average|avg|mean|median|total|sum|overall|geo(?:metric )?mean|std(?:ev| dev)?)s?\W*",
    re.IGNORECASE,
)
"""The names of rows that may sum up the others."""

OFF = 0.02
"""The share by which a figure may be off that sums up others, as authors round in between."""

ALIKE = 1.05
"""The ratio up to which figures are so alike that any of them is about their mean."""


def without_summaries(rows: Sequence[Row], kept: Collection[str]) -> list[Row]:
    """Return the rows of a table without those that sum up the others, which the first row then tells.

    Such rows stand at the end, are called so, and have a figure that is a sum, a mean or the like of the others'. Those
    whose names are to be `kept`, as claims are about them, stay.
    """
    of_runs = [i for i, row in enumerate(rows) if not SUMMARY.fullmatch(row.label)]
    runs, behind = [rows[i] for i in of_runs], rows[max(of_runs, default=-1) + 1 :]
    left_out = [row for row in behind if row.label not in kept and len(runs) > 1 and _sums_up(row, runs)]
    if not left_out:
        return list(rows)
    names = " and ".join(f"'{row.label}'" for row in left_out)
    told = f"{names} of its table sum{'s' * (len(left_out) == 1)} up the other rows: is it so? No run is made of that"
    first, *others = (row for row in rows if row not in left_out)
    return [replace(first, questions=[*first.questions, told]), *others]


def _sums_up(row: Row, runs: Sequence[Row]) -> bool:
    for name, text in row.figures.items():
        values = [_value(other.figures[name]) for other in runs if name in other.figures]
        said = _value(text)
        if said is None or None in values or len(values) < 2 or min(values) <= 0 or max(values) <= ALIKE * min(values):
            continue
        ways = (sum, statistics.fmean, statistics.median, statistics.geometric_mean, statistics.stdev)
        if any(abs(way(values) - said) <= OFF * said for way in ways):
            return True
    return False


def _value(text: object) -> float | None:
    try:
        return figure(text).middle
    except ValueError:
        return None
