"""The pace of later bars: as they show it, if their counts and clocks bear it out.

What tqdm shows is smoothed over many bars, counts what a resumed run skipped, and is the mean of all in its last bar.
So a short part of a log may show a pace that its steps never had.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise

from slowstep.audit.read.stretches import Pace, Stretch

SETTLED = 0.5
"""The share of the bars, from the first on, that does not count, since the first ones include the start."""

WINDOW = 20
"""The seconds of bars that are looked at together where single ones are uneven."""

MOST = 0.5
"""The share of the steps that must bear out a pace."""

Window = tuple[int, int]
"""The counts and the seconds between two bars. The seconds are rounded, so that they may be off by one."""


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
