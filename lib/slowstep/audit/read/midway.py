"""A pace that changes midway: a device that throttles, a run that was restarted, other data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slowstep.audit.figures import parse
from slowstep.audit.read.courses import SETTLED, middle_of
from slowstep.audit.relations import TITLES

START = 0.1
"""The share of the values, from the first on, that is left out of the earlier half, since it includes the start."""

CHANGED = 0.25
"""The share by which the medians of both halves differ, beyond rounding, from which on it is worth a question."""

WHOLE_TIMES = ("seconds", "minutes", "hours")
"""Figures of all the time that a run took."""

FEWEST = 10
"""The number of values from which on halves are compared."""


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
