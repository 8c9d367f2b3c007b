"""Columns that count steps: which one the rows of a course follow, and whether others count other steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from slowstep.audit.read.cells import Cell, bare
from slowstep.audit.read.columns import plain
from slowstep.audit.read.courses import LOGGED, step_of

OF_LOGS = "may count what was logged, and no steps of the optimizer: call it 'step' if it counts these."
LEFT_OUT = "The time by the clock is left out"


def steps_along(
    position: int, counters: Sequence[int], header: Sequence[Cell], texts: Sequence[Sequence[str]]
) -> list[float | None]:
    """Return the steps of rows by the column at `position`; `texts` are those of each column.

    An empty cell has the step of the row above where the tracker's own count goes on, as was logged between two steps.
    """
    logged = next((texts[i] for i in counters if i != position and _name(header[i]) == LOGGED), None)
    found: list[float | None] = []
    for i, cell in enumerate(texts[position]):
        between = logged and found and not cell.strip() and _goes_on(logged[i - 1], logged[i])
        found.append(found[-1] if between else step_of(cell))
    return found


def other_steps(position: int, counters: Sequence[int], header: Sequence[Cell], texts: Sequence[Sequence[str]]) -> str:
    """Ask about a column that counts other steps than the one at `position`; empty if none does.

    A tracker's own count says nothing beside another one, as it counts what was logged; alone it is asked about.
    """
    if _name(header[position]) == LOGGED:
        return f"'{plain(header[position][0])}' {OF_LOGS} {LEFT_OUT}"
    others = [i for i in counters if i != position and _name(header[i]) != LOGGED] if position in counters else []
    unlike = next((i for i in others if not _alike(texts[position], texts[i])), None)
    if unlike is None:
        return ""
    names = " and ".join(f"'{plain(header[i][0])}'" for i in (position, unlike))
    return f"{names} count other steps: which are the optimizer's? Leave out the column of the others. {LEFT_OUT}"


def _name(cell: Cell) -> str:
    return bare(plain(cell[0])).replace(" ", "_")


def _goes_on(before: str, after: str) -> bool:
    a, b = step_of(before), step_of(after)
    return a is not None and b is not None and a < b


def _alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two columns rise by the same from row to row, where both rise."""
    both = [(step_of(a), step_of(b)) for a, b in zip(one, other, strict=True)]
    known = [(a, b) for a, b in both if a is not None and b is not None]
    rises = [(a - before_a, b - before_b) for (before_a, before_b), (a, b) in pairwise(known)]
    return all(a == b for a, b in rises if a > 0 and b > 0)
