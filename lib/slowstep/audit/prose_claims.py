"""Sizes that the prose beside a table claims, looked for among the rows of the table. What they blame is not judged."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import permutations

from slowstep.audit.equal_work import WHOLE, WORK, equal_work, read_by, read_from, with_speed
from slowstep.audit.figures import Figure, exact, figure
from slowstep.audit.findings import times
from slowstep.audit.read.prose import CLAIMED, FASTER, LESS_TIME, MORE_TIME, SLOWER
from slowstep.audit.relations import CONSEQUENCE, TITLES
from slowstep.audit.run import ReportedRun

MOST_ROWS = 40
"""The most rows of which every two are compared."""

MOST = 6
"""The most claims that the question names."""

ABOUT = 0.05
"""The share by which a size without decimals, `3x`, may be rounded further than to a half."""


def prose_claims(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask for the claims that prose makes, each with the rows that are as far apart, or with the word that none are."""
    said = [claim for run in runs for claim in run.prose]
    if not said:
        return []
    measured = with_speed(runs)[:MOST_ROWS]
    each = [f"“{claim}” ({_found(claim, measured)})" for claim in said[:MOST]]
    more = f", and {len(said) - MOST} more" if len(said) > MOST else ""
    return [
        f"The text beside its figures claims sizes, and why they are so is not read: {', '.join(each)}{more}. Which "
        "are to be judged (`claims`)?"
    ]


def _found(claim: str, runs: Sequence[ReportedRun]) -> str:
    """Return which two rows are as far apart as a claim says, in the unit of the most equal work that fits."""
    sizes, less_often = _sizes(claim)
    if not sizes:
        return "of what?"
    places = sorted(permutations(range(len(runs)), 2), key=lambda pair: pair[0] > pair[1])
    pairs = [(runs[i], runs[j]) for i, j in places]
    fits = [fit for pair in pairs for size in sizes for fit in _fits(*pair, size)]
    if fits:
        return min(fits, key=lambda fit: fit[:2])[2]
    otherwise = [fit for size in less_often for pair in pairs for fit in _fits(*pair, size)]
    if otherwise:
        return f"{min(otherwise, key=lambda fit: fit[:2])[2]}, if it is the share of the time"
    return "no two rows are so far apart"


def _fits(a: ReportedRun, b: ReportedRun, size: Figure) -> Iterator[tuple[int, float, str]]:
    """Yield in words how `b` is as many times as fast as `a`, with two numbers that are larger the worse it fits."""
    gain, unit = equal_work(a, b)

    def off(ratio: Figure) -> float:
        """Return by how much a ratio is another one than the size, which it may be by the spread of repeats alone."""
        return abs(math.log(ratio.middle / size.middle))

    if gain and gain.bounded and gain.gap(size) <= CONSEQUENCE:
        noise = ", and may be no faster at all by the spread of its figures" if _by_spread(a, b, gain) else ""
        yield 0, off(gain), f"'{b.label}' is that beside '{a.label}' {read_by(unit)}{noise}"
        return
    for quantity in dict.fromkeys((*WORK, *WHOLE)):
        read = read_from(quantity, a, b)
        if read and read.bounded and read.gap(size) <= CONSEQUENCE:
            equal = f", and {read_by(unit)} it is {times(gain.middle)} as fast" if gain and gain.bounded else ""
            yield 1, off(read), f"'{b.label}' is that beside '{a.label}' in {TITLES[quantity]}{equal}"


def _by_spread(a: ReportedRun, b: ReportedRun, gain: Figure) -> bool:
    """Return whether the spread of what was measured allows that neither of two rows is faster."""
    return (a.with_spread or b.with_spread) and gain.meets(exact(1))


def _sizes(claim: str) -> tuple[list[Figure], list[Figure]]:
    """Return how many times as fast a claim says that something is, and what it is taken for less often."""
    found = CLAIMED.fullmatch(claim)
    number = found["size"] or found["size_of"] if found else "0"
    size = figure(number)
    if not found or size.middle <= 0:
        return [], []
    word = found["word"] or found["before"]

    def says(words: str) -> bool:
        return bool(re.fullmatch(words, word, re.IGNORECASE))

    if (found["unit"] or found["unit_of"]) in ("%", "percent"):
        more, left = exact(1) + size / 100, exact(1) - size / 100
        less = [left] if left.low > 0 else []
        if says(FASTER):
            return [more], [1 / each for each in less]
        if says(SLOWER):
            return [*less, 1 / more], []
        return ([1 / more] if says(MORE_TIME) else [1 / each for each in less] if says(LESS_TIME) else []), []
    if "." not in number:
        size = Figure(size.middle * (1 - ABOUT), size.middle * (1 + ABOUT), size.middle)
    if says(FASTER) or says(LESS_TIME):
        return [size], []
    return ([1 / size] if says(SLOWER) or says(MORE_TIME) else []), []
