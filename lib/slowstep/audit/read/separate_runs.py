"""Bars of several runs in one log: an epoch's number that falls begins another run, and so does another total."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from slowstep.audit.read.other_work import OF_TRAINING
from slowstep.audit.read.stretches import Stretch, begins_again

NUMBER = re.compile(r"epoch\W{0,3}(\d{1,6})(?!\d|\.\d|[a-z])|train(?:ing)?\W{1,3}(\d{1,6})\s?/\s?\d", re.IGNORECASE)
"""The number of an epoch in the name of its bar: `Epoch 1/2`, `Train [1/2]`."""

DIGITS = re.compile(r"\d+")


def separate_runs(own: Sequence[Stretch], counting: Sequence[Stretch]) -> list[list[Stretch]]:
    """Return the bars over training steps of each run; `counting` are the bars over its epochs, if there are some.

    Bars that neither a name nor a bar over epochs tells apart stay together: one may be an epoch or an evaluation.
    """
    falls = [a.at for a, b in pairwise(counting) if b.first < a.last]
    runs: list[list[Stretch]] = []
    for stretch in own:
        last = runs[-1][-1] if runs else None
        if (
            last is None
            or any(last.at < at < stretch.at for at in falls)
            or _is_another(runs[-1], stretch)
            or _is_behind(runs[-1][0], last, stretch, counting)
        ):
            runs.append([])
        runs[-1].append(stretch)
    return runs


def _is_another(run: Sequence[Stretch], stretch: Stretch) -> bool:
    """Return whether a bar is of another run than those before it, by its name.

    The number of its epoch falls, or the same epoch begins again, or a bar that is called a training has another total.
    """
    last, number = max(map(_number, run)), _number(stretch)
    if 0 <= last < number:
        return False
    if number >= 0:
        alike = next((s for s in reversed(run) if (s.name, s.total) == (stretch.name, stretch.total)), None)
        if begins_again(alike, stretch) if alike else number < last:
            return True
    kind = DIGITS.sub("", stretch.name)
    totals = {s.total for s in run if DIGITS.sub("", s.name) == kind}
    return bool(totals) and stretch.total not in totals and bool(OF_TRAINING.search(kind))


def _number(stretch: Stretch) -> int:
    """Return the number of an epoch that the name of its bar says; -1 if it says none."""
    found = NUMBER.search(stretch.name)
    return int(found[1] or found[2]) if found else -1


def _is_behind(first: Stretch, last: Stretch, stretch: Stretch, counting: Sequence[Stretch]) -> bool:
    """Return whether a bar begins again as a run's first one does, behind the end of the bar over its epochs."""
    ended = bool(counting) and counting[-1].at < stretch.at and counting[-1].last >= counting[-1].total
    same = (first.name, first.total) == (stretch.name, stretch.total)
    return ended and same and last.at < counting[-1].at and begins_again(last, stretch)
