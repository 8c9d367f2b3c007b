"""Columns that count steps: which one the rows of a course follow, and whether others count other steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from slowstep.audit.read.cells import Cell, bare
from slowstep.audit.read.columns import plain
from slowstep.audit.read.courses import LOGGED, step_of

OF_LOGS = "may count what was logged, and no steps of the optimizer: call it 'step' if it counts these."
LEFT_OUT = "The time by the clock is left out"

LAG, LAG_SHARE = 2.0, 0.1
"""The steps by which one count may lag behind another of the same, and the share of all that these are at most."""


def steps_along(
    counters: Sequence[int], header: Sequence[Cell], texts: Sequence[Sequence[str]]
) -> tuple[list[float | None], list[float | None]]:
    """Return the steps of rows by the first of the `counters`, and what a tracker counted beside it, or nothing.

    `texts` are those of each column.
    """
    logged = next((texts[i] for i in counters[1:] if _name(header[i]) == LOGGED), None)
    steps = [step_of(cell) for cell in texts[counters[0]]]
    return steps, [step_of(cell) for cell in logged] if logged else [None] * len(steps)


def other_steps(counters: Sequence[int], header: Sequence[Cell], texts: Sequence[Sequence[str]]) -> str:
    """Ask about a column that counts other steps than the first of the `counters`; empty if none does.

    A tracker's own count says nothing beside another one, as it counts what was logged; alone it is asked about.
    """
    position, *others = counters
    if _name(header[position]) == LOGGED:
        return f"'{plain(header[position][0])}' {OF_LOGS} {LEFT_OUT}"
    others = [i for i in others if _name(header[i]) != LOGGED]
    unlike = next((i for i in others if not _alike(texts[position], texts[i])), None)
    if unlike is None:
        return ""
    names = " and ".join(f"'{plain(header[i][0])}'" for i in (position, unlike))
    return f"{names} count other steps: which are the optimizer's? Leave out the column of the others. {LEFT_OUT}"


def _name(cell: Cell) -> str:
    return bare(plain(cell[0])).replace(" ", "_")


def _alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two columns rise by as much in all, where neither falls."""
    both = [(step_of(a), step_of(b)) for a, b in zip(one, other, strict=True)]
    known = [(a, b) for a, b in both if a is not None and b is not None]
    rises = [(a - before_a, b - before_b) for (before_a, before_b), (a, b) in pairwise(known)]
    a, b = (sum(rise[i] for rise in rises if min(rise) >= 0) for i in (0, 1))
    return abs(a - b) <= min(LAG, LAG_SHARE * max(a, b))
