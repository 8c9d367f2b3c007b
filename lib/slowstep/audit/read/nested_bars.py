"""Bars over epochs: each of their counts is made up of a whole run of another bar, whatever both are called."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slowstep.audit.read.stretches import Stretch, is_full

Key = tuple[str, int]
"""The name and the total of a bar."""

EPOCHS = re.compile(r"epoch", re.IGNORECASE)


def outer_bars(stretches: Sequence[Stretch]) -> set[Key]:
    """Return the bars whose every count comes after a whole run of another bar, and is one more than the last.

    A single count could also follow what was loaded before training, so that it is believed of epochs alone.
    """
    outer = {key: 0 for stretch in stretches if (key := (stretch.name, stretch.total))}
    counts: dict[Key, tuple[int, int]] = {}  # the last count of a bar, and the place where it was reached
    runs: dict[Key, tuple[int, int, int]] = {}  # where a bar's run began, its first count and its last one
    whole = -1  # where the latest of the whole runs began
    for i, stretch in enumerate(stretches):
        key = (stretch.name, stretch.total)
        last, at = counts.get(key, (0, -1))
        if stretch.first != stretch.last or (key in counts and stretch.first > last + 1):
            outer.pop(key, None)
        elif stretch.first == last + 1 and key in outer:
            outer[key] += 1
            if whole <= at:
                outer.pop(key)
        if stretch.first != last:
            counts[key] = (stretch.first, i)
        began, first, end = runs.get(key, (i, stretch.first, 0))
        if stretch.first < end:
            began, first = i, stretch.first
        runs[key] = (began, first, stretch.last)
        if is_full(first, stretch.last, stretch.total):
            whole = max(whole, began)
    return {key for key, advances in outer.items() if advances > 1 or (advances and EPOCHS.search(key[0]))}
