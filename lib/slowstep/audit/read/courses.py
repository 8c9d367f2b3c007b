"""The course of a run in a table: rows that follow each other by a step column are one run, and no repeats of it.

Steps that follow each other are not independent of each other, so that their spread says nothing about noise.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from slowstep.audit.figures import parse
from slowstep.audit.read.cells import Cell, bare
from slowstep.audit.read.columns import plain
from slowstep.audit.read.measures import number
from slowstep.audit.read.unknown_columns import is_measurement, is_set_amount
from slowstep.audit.relations import COUNTS
from slowstep.audit.run import STATED

POSITIONS = {
    *("step", "_step", "iter", "iteration", "global_step", "trainer/global_step"),
    *("current_steps", "current_step", "global_step/max_steps"),
}
"""Headers of columns that say at which step a row was written."""

LOGGED = "_step"
"""The header of W&B's own count, of what was logged. It gives way to a column that counts the training's steps."""

EPOCH = "epoch"
"""The header of a column that says in which epoch a row was written, or how many epochs were reached."""

BESIDE_POSITION = {EPOCH, "learning_rate", "lr", "percentage", "remaining_time", "eta"}
"""Headers of columns that change as training goes on, and so are no settings of a run beside a step column."""

PASSING = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?|"
    r"[\d.,]+\s?%|\d[\d,]*\s?/\s?\d[\d,]*|[\d:.,]+ ?[dhms]\b(?:[ \d.]+[dhms]\b)*[ \d.]*|\d+(?::\d\d)+"
)
"""Cells that change as training goes on and are no words of a run: `5.32%`, `5/94`, `6m 44s`, `0:01:10`, dates."""

SETTLED = 0.5
"""The share of a course, from its beginning on, that does not count, since the first steps include the start."""

WHOLE = {
    *("seconds", "minutes", "hours", "cost", "device_hours", "steps", "samples", "tokens_in_all", "epochs", "saves"),
    "seconds_saving",
}
"""Figures that grow as training goes on, so that the last one counts and not the middle one."""

SET_UP = {*COUNTS} - WHOLE - {"steps_per_epoch", "tokens_per_step"}
"""Figures that say how a run was set up, so that repeats of one measurement have them in common."""


OF_LOGS = "may count what was logged, and no steps of the optimizer: call it 'step' if it counts these."
LEFT_OUT = "The time by the clock is left out"

LAG, LAG_SHARE = 2.0, 0.1
"""The steps by which one count may lag behind another of the same, and the share of all that these are at most."""


def counters_of(headers: Sequence[str], body: Sequence[Sequence[str]], measured: Collection[int] = ()) -> list[int]:
    """Return the columns by which rows may follow each other as the course of a run; that which they follow is first.

    Their numbers rise from row to row while all words beside them stay the same; columns that are known to be
    `measured` hold no words. The count of a tracker is last. A column of epochs is one if no column of steps is, and if
    its numbers are those of each epoch in turn, or parts of epochs.
    """
    names = [header.lower().replace(" ", "_") for header in headers]
    rising = [
        i
        for i, name in enumerate(names)
        if name in POSITIONS
        and any(a < b for each in _positions(i, headers, body, measured) for a, b in pairwise(each))
    ]
    i = names.index(EPOCH) if EPOCH in names and not rising else None
    if i is not None and any(map(_counts_epochs, _positions(i, headers, body, measured))):
        return [i]
    return sorted(rising, key=lambda i: names[i] == LOGGED)


def _positions(
    i: int, headers: Sequence[str], body: Sequence[Sequence[str]], measured: Collection[int]
) -> list[list[float]]:
    """Return the numbers of a column, row by row, for each set of words that rows have."""
    steps: dict[Hashable, list[float]] = {}
    for cells in body:
        at = step_of(cells[i]) if i < len(cells) else None
        if at is not None:
            others = [(h, c) for n, (h, c) in enumerate(zip(headers, cells, strict=False)) if n not in measured]
            words = (cell for header, cell in others if cell.strip() and _names_a_run(header, cell))
            steps.setdefault(tuple(words), []).append(at)
    return list(steps.values())


def _counts_epochs(epochs: Sequence[float]) -> bool:
    """Return whether numbers are those of one epoch after the other, or of parts of epochs, and no settings of runs."""
    apart = [b - a for a, b in pairwise(epochs)]
    in_turn = epochs[0] in (0, 1) and all(gap == 1 for gap in apart)
    in_parts = all(gap > 0 for gap in apart) and any(epoch % 1 for epoch in epochs)
    return bool(apart) and (in_turn or in_parts)


def _names_a_run(header: str, text: str) -> bool:
    """Return whether a cell may tell the runs of a table apart: it is no number, and nothing that training changes."""
    if number(text) is not None or is_measurement(header, text):
        return False
    return is_set_amount(header, text) or not PASSING.fullmatch(text.strip())


def step_of(text: str) -> float | None:
    """Return the step or epoch that a cell says, `5` or `5/94`; None if it holds another text, `nan` or `inf`."""
    found = number(re.sub(r"\s?/\s?\d[\d,]*$", "", text.strip()))
    return found if found is not None and math.isfinite(found) else None


def measured_in(row: Mapping[str, Any]) -> frozenset[str]:
    """Return the figures of a row that were measured, without ratios to another row that it states beside them."""
    return frozenset(row["figures"]) - {*STATED}


def repeat_key(row: Mapping[str, Any]) -> Hashable:
    """Return what two rows have in common if they are repeats of one measurement.

    Rows on other numbers of devices or with other batches are none, nor are rows that differ in a column that was not
    read and may be a setting.
    """
    kinds = (measured_in(row), frozenset(row["phases"]))
    set_up = frozenset((q, text) for q, text in row["figures"].items() if q in SET_UP)
    return row["label"], frozenset(row["settings"].items()), set_up, frozenset(row["unknown"].items()), *kinds


def courses_of(
    rows: Sequence[dict[str, Any]], steps: Sequence[float | None], logged: Sequence[float | None], name: str
) -> list[dict[str, Any]]:
    """Join the rows of each course to one row, with the median of the later half of its figures.

    All its figures, clocks and steps stand beside them. `steps` are the steps of the rows, and `logged` is a tracker's
    own count, if there is one. Rows without a name of their own are called `name` if they form a course.
    """
    groups = _with_those_between(rows, steps)
    apart: list[list[Placed]] = []
    for places in groups:
        counted = sum(steps[i] is not None for i in places)
        if counted > 1 or (counted and any(logged[i] is not None for i in places)):
            apart += _by_numbers(list(_placed(places, rows, steps, logged)))
        else:
            apart += [[(steps[i] or 0.0, rows[i])] for i in places]
    return [_course(each, name) for group in apart for each in _rising(group)]


Placed = tuple[float, dict[str, Any]]
"""A row at a step. A row that says none has `between`, and that of another one."""


def _with_those_between(rows: Sequence[dict[str, Any]], steps: Sequence[float | None]) -> list[list[int]]:
    """Return the places of the rows of each run, by its name, its settings and its words.

    A row without a step, which was logged before or between others, may lack some of these: it is of the run nearest to
    it that says all that it says.
    """
    groups: dict[tuple[str, frozenset[Any], frozenset[Any]], list[int]] = {}
    for i, row in enumerate(rows):
        label = row["label"] if row["named"] else ""
        words = frozenset((key, text) for key, text in row["unknown"].items() if _names_a_run(key, text))
        groups.setdefault((label, frozenset(row["settings"].items()), words), []).append(i)
    courses = {key: [*places] for key, places in groups.items() if sum(steps[i] is not None for i in places) > 1}
    for key in [key for key, places in groups.items() if all(steps[i] is None for i in places)]:
        label, settings, words = key
        own = [one for one in courses if one[0] == label and settings <= one[1] and words <= one[2]]
        near = sorted((place, n) for n, one in enumerate(own) for place in courses[one])
        for i in groups.pop(key) if own else ():
            at = bisect_left(near, (i, 0))
            _, nearest = min(near[max(0, at - 1) : at + 1], key=lambda one, i=i: abs(one[0] - i))
            groups[own[nearest]].append(i)
    return [sorted(places) for places in groups.values()]


def _placed(
    places: Sequence[int], rows: Sequence[dict[str, Any]], steps: Sequence[float | None], logged: Sequence[float | None]
) -> Iterator[Placed]:
    """Yield the rows of a run, each with its step. One without has that of the row above.

    The first ones of a run have that of the row below, and their clock says nothing. A run begins again where the
    tracker's own count falls.
    """
    parts: list[list[int]] = [[]]
    for before, i in zip((places[0], *places), places, strict=False):
        was, now = logged[before], logged[i]
        parts += [[]] if was is not None and now is not None and now < was else []
        parts[-1].append(i)
    at = 0.0
    for part in parts:
        at = next((step for i in part if (step := steps[i]) is not None), at)
        begun = False
        for i in part:
            own = steps[i]
            at, begun = (at, begun) if own is None else (own, True)
            yield at, rows[i] if own is not None else rows[i] | {"between": True} | ({} if begun else {"clock": None})


def _by_numbers(group: Sequence[Placed]) -> list[list[Placed]]:
    """Return the rows of each course where several have the same steps, and a number that was not read parts them."""
    own = [(at, row) for at, row in group if not row.get("between")]
    steps = [at for at, row in own if measured_in(row)]
    names = (
        dict.fromkeys(n for _, row in own for n in (*row["unknown"], *row["sizes"]))
        if len({*steps}) < len(steps)
        else ()
    )
    for name in names:
        parts: dict[Hashable, list[Placed]] = {}
        for at, row in own:
            parts.setdefault(row["unknown"].get(name, row["sizes"].get(name)), []).append((at, row))
        rise = all(len(each) > 1 and all(a < b for (a, _), (b, _) in pairwise(each)) for each in parts.values())
        if len(parts) > 1 and rise:
            return list(parts.values())
    return [list(group)]


def _rising(group: Sequence[Placed]) -> Iterator[list[Placed]]:
    """Yield the rows of each course. A step that comes before a course's first one begins another course."""
    found: list[Placed] = []
    first = last = 0.0
    for at, row in group:
        if found and at <= first and at < last:
            yield found
            found = []
        first, last = first if found else at, at
        found.append((at, row))
    yield found


def _course(course: Sequence[Placed], name: str) -> dict[str, Any]:
    rows = [row for _, row in course]
    if len(rows) == 1:
        return rows[0]
    own = [row for row in rows if not row.get("between")] or rows
    first = own[0]
    found = {part: _middle([row[part] for row in rows]) for part in ("figures", "phases")}
    unknown = {key: text for key, text in first["unknown"].items() if all(r["unknown"].get(key) == text for r in own)}
    sizes = {key: text for key, text in first["sizes"].items() if all(r["sizes"].get(key) == text for r in own)}
    said = {"label": first["label"] if first["named"] else name, "unknown": unknown, "sizes": sizes}
    said["at"] = [at for at, _ in course]
    said["clocks"] = [(at, row["clock"]) for at, row in course if row.get("clock") is not None]
    said["course"] = {q: [row["figures"][q] for row in rows if q in row["figures"]] for q in found["figures"]}
    return first | found | said | {"out_of_memory": any(row["out_of_memory"] for row in rows)}


def _middle(each: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the median of the later half of each figure, and the last of those that grow."""
    values: dict[str, list[str]] = {}
    for figures in each:
        for quantity, value in figures.items():
            values.setdefault(quantity, []).append(value)
    return {quantity: given[-1] if quantity in WHOLE else middle(given) for quantity, given in values.items()}


def middle(values: Sequence[str]) -> str:
    """Return the median of the later half of figures, with its digits."""
    return middle_of(values[int(SETTLED * len(values)) :])


def middle_of(values: Sequence[str]) -> str:
    """Return the median of figures, with its digits."""
    size = {value: parse(value).middle for value in set(values)}
    return sorted(values, key=lambda value: size[value])[len(values) // 2]


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
