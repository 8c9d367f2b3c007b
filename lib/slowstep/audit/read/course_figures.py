"""Figures in the course of a run: a pace that changes midway, and times, costs and counts of each row or of all so far.

What adds up grows by about as much from row to row as it began with: 60, 121, 180 s. What each row has of its own stays
about the same, or falls: 60, 61, 60 s. In between nobody can tell, since a first row may hold a slow start.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from slowstep.audit.figures import parse
from slowstep.audit.read.columns import in_own_unit
from slowstep.audit.read.courses import SETTLED, middle, middle_of
from slowstep.audit.relations import TITLES

START = 0.1
"""The share of the values, from the first on, that is left out of the earlier half, since it includes the start."""

CHANGED = 0.25
"""The share by which the medians of both halves differ, beyond rounding, from which on it is worth a question."""

WHOLE_TIMES = ("seconds", "minutes", "hours")
"""Figures of all the time that a run took."""

FEWEST = 10
"""The number of values from which on halves are compared."""


PER_EPOCH = {
    "seconds": ("seconds_per_epoch", 1.0),
    "minutes": ("minutes_per_epoch", 1.0),
    "hours": ("seconds_per_epoch", 3600.0),
    "steps": ("steps_per_epoch", 1.0),
    "samples": ("samples_per_epoch", 1.0),
}
"""Figures that may be of an epoch, each with the figure that they are then, and the size of its unit in that one's."""

SUMS = (*PER_EPOCH, "tokens_in_all", "cost", "device_hours")
"""Figures that may be sums of all rows so far."""

COUNTED = ("steps", "samples", "tokens_in_all")
"""Sums that may also be planned before a run begins, and then are the same in each row."""

CERTAIN, GROWN = 9, 1.5
"""How often values rise without a fall, and by what ratio in all, where nothing but a sum does so."""

ENDED = 0.02
"""The share of the planned steps that the last row of a whole run may be short of."""

ADDED = 0.5
"""The share of the first value that the rows add to a sum at least, since the first one may hold a slow start."""

MANY = 5
"""The number of rows from which on it is no chance that all values rise."""

STEADY = 0.1
"""The share of the first value by which the values of single rows grow at most over all rows."""


def changed_midway(values: Mapping[str, Sequence[str]]) -> list[str]:
    """Ask about the first figure whose later half, which counts, is unlike the earlier one; `values` are in order."""
    for quantity, each in values.items():
        if len(each) < FEWEST:
            continue
        half = int(SETTLED * len(each))
        earlier, later = middle_of(each[int(START * len(each)) : half]), middle_of(each[half:])
        a, b = parse(earlier), parse(later)
        if a.low > 0 and b.low > 0 and a.gap(b) > CHANGED:
            title = TITLES.get(quantity, quantity)
            return [
                f"it has {earlier} {title} in its first half and {later} in its second, which counts: what changed?"
            ]
    return []


def without_whole_times(figures: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the figures of a run whose pace is that of its later half, without times of the whole run; with a word.

    The pace is no factor of such a time.
    """
    whole = [name for name in WHOLE_TIMES if name in figures]
    words = [
        f"its {TITLES[name]} ({figures[name]}) are left out, since that pace is not of all steps" for name in whole
    ]
    return {name: value for name, value in figures.items() if name not in whole}, words


def read_sums(row: Mapping[str, Any], by_epoch: bool) -> dict[str, Any]:
    """Return the row of a course with sums of all rows so far as they are, and what each epoch has as a figure of it.

    `by_epoch` says that the rows follow each other by epochs. What could be either is left out, with a question.
    """
    figures, questions = dict(row["figures"]), list(row["questions"])
    at: list[float] = row.get("at", [])
    epochs_in_turn = by_epoch and all(b - a == 1 for a, b in pairwise(at))
    for whole, values in row.get("course", {}).items():
        sizes = [parse(value).middle for value in values]
        planned = whole in COUNTED and len({*sizes}) == 1 and not by_epoch
        if planned and at and at[-1] < (1 - ENDED) * sizes[0]:  # its rows end before, and their sums with them
            figures.pop(whole, None)
        if whole not in SUMS or len(values) < 2 or planned or _adds_up(sizes, at):
            continue
        figures.pop(whole, None)
        if epochs_in_turn and whole in PER_EPOCH and _of_each(sizes, whole in COUNTED):
            of_epoch, scale = PER_EPOCH[whole]
            figures.setdefault(of_epoch, in_own_unit(of_epoch, middle(values), scale)[1])
            continue
        ends = dict.fromkeys((values[0], values[-1]))
        said = f"its rows say {' to '.join(ends)} {TITLES[whole]}"
        questions.append(f"{said}: is that of each row, or of all rows so far? It is left out")
    return {**row, "figures": figures, "questions": questions}


def _adds_up(sizes: Sequence[float], at: Sequence[float]) -> bool:
    """Return whether values are sums of all rows so far; `at` are the steps of the rows.

    A run that went on from a checkpoint begins with a large sum, which then grows in proportion to its steps.
    """
    added = [b - a for a, b in pairwise(sizes)]
    grows = [by for by in added if by]  # several rows of one step have one sum
    if not grows or min(grows) < 0:
        return False
    if statistics.median(grows) >= ADDED * sizes[0]:
        return True
    if len(grows) >= CERTAIN and sizes[-1] >= GROWN * sizes[0]:  # each stretch is short beside the start
        return True
    if len(at) != len(sizes) or len(grows) < MANY or at[0] <= 0:
        return False
    grown, steps = (each[-1] / each[0] - 1 for each in (sizes, at))
    return ADDED * steps <= grown <= steps / ADDED


def _of_each(sizes: Sequence[float], counted: bool) -> bool:
    """Return whether values are those of single rows. A count that is the same in all rows may be planned."""
    falls = any(a > b for a, b in pairwise(sizes))
    return falls or (not counted and sizes[-1] - sizes[0] <= STEADY * sizes[0])
