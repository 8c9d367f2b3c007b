"""Bars of several runs in one log, by the numbers and totals of epochs, and bars that count the epochs of others."""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from slowstep.audit.read.other_work import OF_TRAINING
from slowstep.audit.read.stretches import BEHIND, Stretch, begins_again, is_full

NUMBER = re.compile(r"epoch\W{0,3}(\d{1,6})(?!\d|\.\d|[a-z])|train(?:ing)?\W{1,3}(\d{1,6})\s?/\s?\d", re.IGNORECASE)
"""The number of an epoch in the name of its bar: `Epoch 1/2`, `Train [1/2]`."""

DIGITS = re.compile(r"\d+")


Key = tuple[str, int]
"""The name and the total of a bar."""

EPOCHS = re.compile(r"epoch", re.IGNORECASE)


@dataclass
class BarsOfRun:
    """The bars of one run, with what tells whether the next one is of another run."""

    stretches: list[Stretch] = field(default_factory=list)
    latest: dict[tuple[str, int], Stretch] = field(default_factory=dict)
    """The latest bar of each name and total."""
    totals: dict[str, set[int]] = field(default_factory=dict)
    """The totals of the bars of each name without its numbers."""
    epoch: Stretch | None = None
    """The latest bar of the latest epoch."""

    def add(self, stretch: Stretch) -> None:
        """Add the next bar."""
        self.stretches.append(stretch)
        self.latest[stretch.name, stretch.total] = stretch
        self.totals.setdefault(DIGITS.sub("", stretch.name), set()).add(stretch.total)
        if self.epoch is None or _number(stretch.name) >= _number(self.epoch.name):
            self.epoch = stretch

    def ends_before(self, stretch: Stretch) -> bool:
        """Return whether a bar is of another run, by its name.

        The number of its epoch falls, or a whole epoch begins again, or a bar called as training is has another total.
        An epoch that broke off and begins again is of a run that was resumed.
        """
        last, number = _number(self.epoch.name), _number(stretch.name)
        if 0 <= last < number:
            return False
        alike = self.latest.get((stretch.name, stretch.total))
        if 0 <= number == last and alike and alike.is_whole and begins_again(alike, stretch):
            return True
        # another process may end an epoch when this one has begun the next
        if 0 <= number < last and (not alike or self.epoch.last > max(1, BEHIND * self.epoch.total)):
            return True
        kind = DIGITS.sub("", stretch.name)
        return stretch.total not in self.totals.get(kind, {stretch.total}) and bool(OF_TRAINING.search(kind))


def separate_runs(own: Sequence[Stretch], counting: Sequence[Stretch]) -> list[list[Stretch]]:
    """Return the bars over training steps of each run; `counting` are the bars over its epochs, if there are some.

    Bars that neither a name nor a bar over epochs tells apart stay together: one may be an epoch or an evaluation.
    """
    falls = [a.at for a, b in pairwise(counting) if b.first < a.last]
    runs = [BarsOfRun()]
    fallen = 0
    for stretch in own:
        run, before, fallen = runs[-1], fallen, bisect_left(falls, stretch.at)
        if run.stretches and (
            fallen > before or run.ends_before(stretch) or _is_behind(run.stretches, stretch, counting)
        ):
            runs.append(BarsOfRun())
        runs[-1].add(stretch)
    return [run.stretches for run in runs]


def are_twice_in_an_epoch(runs: Sequence[Sequence[Stretch]]) -> bool:
    """Return whether runs are none, since one of two bars of the same name in each epoch evaluates."""
    numbers = {_number(stretch.name) for run in runs for stretch in run}
    again = all(_number(a[-1].name) == _number(b[0].name) and a[-1].is_whole for a, b in pairwise(runs))
    return len(runs) > 2 and len(numbers) > 1 and again


@functools.lru_cache(maxsize=4096)
def _number(name: str) -> int:
    """Return the number of an epoch that the name of its bar says; -1 if it says none."""
    found = NUMBER.search(name)
    return int(found[1] or found[2]) if found else -1


def _is_behind(run: Sequence[Stretch], stretch: Stretch, counting: Sequence[Stretch]) -> bool:
    """Return whether a bar begins again as its run's first one did, behind the end of the bar over its epochs."""
    if not counting or not run[-1].at < counting[-1].at < stretch.at:
        return False
    same = (run[0].name, run[0].total) == (stretch.name, stretch.total)
    return same and counting[-1].last >= counting[-1].total and begins_again(run[-1], stretch)


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
