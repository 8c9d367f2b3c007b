"""The bars of one name and total, one after the other, with their paces, if counts and clocks bear these out.

What tqdm shows is smoothed over many bars, counts what a resumed run skipped, and is the mean of all in its last bar.
So a short part of a log may show a pace that its steps never had.
"""

from __future__ import annotations

import functools
import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from slowstep.audit.figures import parse
from slowstep.audit.read.columns import in_own_unit
from slowstep.audit.read.unit_grammar import ratio

MANY = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
"""The letters with which tqdm scales counts (`unit_scale`)."""

CLOCKS = 2
"""The seconds by which the clocks of a training's processes may be apart in their bars."""

BEHIND = 0.05
"""The share of a training by which its processes may be apart in a log that all of them write to."""

SHORT = 0.01
"""The share of a bar that may be missing at its end."""


SETTLED = 0.5
"""The share of the bars, from the first on, that does not count, since the first ones include the start."""

WINDOW = 20
"""The seconds of bars that are looked at together where single ones are uneven."""

MOST = 0.5
"""The share of the steps that must bear out a pace."""

Window = tuple[int, int]
"""The counts and the seconds between two bars. The seconds are rounded, so that they may be off by one."""


@dataclass(frozen=True, slots=True)
class Pace:
    """A pace in the kit's own unit."""

    text: str
    quantity: str
    seconds: float
    """The seconds of what the bar counts."""

    @property
    def counts(self) -> str:
        """Return what the bar counts: "step", "sample", "token" or "epoch"."""
        return self.quantity.removeprefix("seconds_per_").removesuffix("s_per_second")


@functools.lru_cache(maxsize=1 << 16)
def pace_of(text: str, unit: str) -> Pace | None:
    """Return the pace that a bar shows, as in `2.13s/it`; None if it counts something else, such as bytes."""
    found = ratio(unit)
    if not found and unit[:1] in MANY and (found := ratio(unit[1:])):  # `1.20kit/s`
        found = replace(found, scale=found.scale * MANY[unit[0]])
    if not found or float(text) <= 0:
        return None
    try:
        quantity, number = in_own_unit(found.quantity, text, found.scale, found.inverted)
        size = parse(number).middle
    except ValueError:  # no run has such a pace
        return None
    return Pace(number, quantity, size if quantity.startswith("seconds_per") else 1 / size)


@dataclass(slots=True)
class Stretch:
    """Bars of one name and total whose counts and clock never fall, with their paces."""

    at: int
    """The place of the first bar in the log, in characters."""
    name: str
    total: int
    first: int
    last: int
    paces: list[Pace] = field(default_factory=list)
    done: array[int] = field(default_factory=lambda: array("q"))
    """The count of each bar."""
    elapsed: array[int] = field(default_factory=lambda: array("q"))
    """The seconds that each bar showed as elapsed."""
    shows_loss: bool = False
    """True if a loss stands behind the pace of its bars, as a training's."""

    of_batches: bool = False
    """True if it counts the batches of a loader, of which several may make up a step."""

    @property
    def counts(self) -> str:
        """Return what the bar counts: "step", "sample", "token" or "epoch"."""
        return self.paces[0].counts

    @property
    def is_whole(self) -> bool:
        """Return whether it goes from the beginning of its bar to the end."""
        return is_full(self.first, self.last, self.total)

    @property
    def covered(self) -> int:
        """Return how many steps its bars show. What was done before the first of them counts as its clock allows."""
        before = round(self.elapsed[0] / self.paces[0].seconds)
        return self.last - self.first + min(self.first, max(1, before))

    def add(self, done: int, elapsed: int, pace: Pace) -> None:
        """Add the next bar."""
        self.last = done
        self.paces.append(pace)
        self.done.append(done)
        self.elapsed.append(elapsed)

    def began_before(self, elapsed: int) -> bool:
        """Return whether a bar that shows so many seconds may go on with this one's clock, and did not start anew."""
        return elapsed >= self.elapsed[-1] - max(CLOCKS, BEHIND * self.elapsed[-1])


def is_full(first: int, last: int, total: int) -> bool:
    """Return whether counts go from the beginning of a bar to its end."""
    return first <= 1 + BEHIND * total and total - last <= max(1, SHORT * total) and last > first


def begins_again(last: Stretch, stretch: Stretch) -> bool:
    """Return whether a bar begins again, and is not one of several processes that are a few steps apart."""
    return last.last - stretch.first > max(0, BEHIND * stretch.total)


def settled(stretches: Sequence[Stretch]) -> Pace:
    """Return the median pace of the later bars, or what their counts and clocks say if they contradict it."""
    paces = [pace for stretch in stretches for pace in stretch.paces]
    skipped = int(SETTLED * len(paces))
    later = sorted(paces[skipped:], key=lambda pace: pace.seconds)
    middle = later[len(later) // 2]
    singly, windows = (_windows(stretches, skipped, seconds) for seconds in (0, WINDOW))
    if not windows or middle.counts == "token" or any(_bear_out(middle, each) for each in (singly, windows)):
        return middle
    return _counted(windows, middle)


def _windows(stretches: Sequence[Stretch], skipped: int, seconds: int) -> list[Window]:
    """Return the windows behind the skipped bars, each of at least so many seconds or at the end of a stretch."""
    found: list[Window] = []
    place = 0
    for stretch in stretches:
        from_bar = max(0, skipped - place - 1)
        place += len(stretch.paces)
        counts = steps = time = 0
        for (a, before), (b, after) in pairwise(zip(stretch.done[from_bar:], stretch.elapsed[from_bar:], strict=True)):
            steps, time, counts = steps + b - a, time + after - before, counts + 1
            if steps and time >= seconds:
                found.append((steps, time))
                counts = steps = time = 0
        if counts and steps:
            found.append((steps, time))
    return found


def _bear_out(pace: Pace, windows: Sequence[Window]) -> bool:
    """Return whether most steps may have had a pace."""
    fit = sum(steps for steps, time in windows if time - 1 < pace.seconds * steps < time + 1)
    return fit >= MOST * sum(steps for steps, _ in windows)


def _counted(windows: Sequence[Window], shown: Pace) -> Pace:
    """Return the pace of most steps by counts and clocks, without windows that hold an evaluation or a save."""
    ordered = sorted(windows, key=lambda window: window[1] / window[0])
    up_to = list(accumulate(steps for steps, _ in ordered))
    middle_steps, middle_time = ordered[bisect_left(up_to, up_to[-1] / 2)]
    low, high = ((middle_time + off) / middle_steps for off in (-1, 1))
    alike = [(steps, time) for steps, time in windows if time - 1 < high * steps and time + 1 > low * steps]
    steps, time = (sum(each) for each in zip(*alike, strict=True))
    off = math.sqrt(len(alike))  # the roundings of many windows make up for each other
    if time <= off:
        return shown
    text = f"{(time - off) / steps:.4g} - {(time + off) / steps:.4g}"
    return Pace(text, f"seconds_per_{shown.counts}", time / steps)
