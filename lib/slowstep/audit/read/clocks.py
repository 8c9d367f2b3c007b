"""Columns of points in time (TensorBoard's `Wall time`), of the time since a run began, and of each epoch's time."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise

from slowstep.audit.read.cells import Cell, bare, by_column
from slowstep.audit.read.columns import Column, plain
from slowstep.audit.read.courses import SETTLED
from slowstep.audit.read.measures import number
from slowstep.audit.read.unit_grammar import HALF_CLOCK, TIMES, seconds_of

OF_A_TIME = re.compile(r"time|date|clock|\bts\b|seconds", re.IGNORECASE)
"""Words of the header of a column that may hold points in time."""

CLOCKS = {1.0: (1e9, 2e9), 1e-3: (1e12, 2e12)}
"""Units of seconds since 1970, each with the numbers from 2001 to 2033. No training takes 30 years."""

ELAPSED = re.compile(
    r"(?:elapsed(?:_time)?|time_elapsed|_?runtime)(?:_?[(\[]?(?P<unit>s|secs?|seconds|min|minutes|h|hours)[)\]]?)?"
)
"""Headers of columns that say how long a run has trained until a row was written, perhaps with their unit."""

SINGLE = re.compile(r"(\d+(?:\.\d+)?) ?([a-z]+)")

WINDOW = 20.0
"""The seconds that are looked at together, since clocks are rounded and single steps uneven."""

ROUNDED = 0.02
"""The share by which the rounding of counts such as `0.37` epochs may make a window's count wrong."""


OF_FASTAI = {"train_loss", "valid_loss"}
"""Columns beside which `01:12` is minutes and seconds, as fastai prints them."""

GROWN = 1.5
"""How many times the first time the last one is at least where times count from the start."""


def points_in_time(header: str, cells: Sequence[str]) -> list[float | None]:
    """Return the points in time that a column holds, in seconds since 1970; empty if it holds something else."""
    values = [number(cell) for cell in cells if cell.strip()] if OF_A_TIME.search(header) else []
    if not values or None in values:
        return [_moment(cell) for cell in cells] if values and all(map(_moment, filter(str.strip, cells))) else []
    unit = next((u for u, (low, high) in CLOCKS.items() if all(low <= value < high for value in values)), 0.0)
    return [number(cell) * unit if cell.strip() else None for cell in cells] if unit else []


def _moment(cell: str) -> float | None:
    """Return the seconds since 1970 of a date with its time, `2025-03-04 10:00:05` or ISO's `T`; else None."""
    text = cell.strip()
    if len(text) < len("2025-03-04 10:00") or not text[:4].isdecimal():
        return None
    try:
        found = datetime.fromisoformat(text.replace(",", ".").replace("/", "-"))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def passed_in(header: str, cells: Sequence[str]) -> list[float | None]:
    """Return the seconds since the start of a run that a column holds, by its name and its units; else nothing."""
    found = ELAPSED.fullmatch(header.lower().replace(" ", "_"))
    if not found:
        return []
    try:
        each = [_duration(f"{cell.strip()} {found['unit']}" if number(cell) is not None else cell) for cell in cells]
    except ValueError:
        return []
    return each if any(each) and all(e is not None or not c.strip() for e, c in zip(each, cells, strict=True)) else []


def _duration(cell: str) -> float | None:
    """Return a duration, `0:01:10`, `6m 44s` or `20s`, in seconds; None if it is none, or has no unit."""
    several, single = seconds_of(cell.strip()), SINGLE.fullmatch(cell.strip())
    if several:
        return float(several[0].split(" ±")[0])
    return float(single[1]) * TIMES[single[2]] if single and single[2] in TIMES else None


def pace_by_clock(points: Sequence[tuple[float, float]]) -> str | None:
    """Return the seconds a step or an epoch by their counts and clocks: the median of the later half, or None.

    A step that was logged twice, or a clock that stands still, says nothing.
    """
    points = points[int(SETTLED * len(points)) :]
    off = _rounding([count for count, _ in points])
    windows: list[tuple[float, float]] = []
    counted = passed = 0.0
    for (a, before), (b, after) in pairwise(points):
        if b < a or after < before:
            return None
        counted, passed = counted + b - a, passed + after - before
        if counted and passed >= WINDOW and ROUNDED * counted >= off:
            windows.append((counted, passed))
            counted = passed = 0.0
    windows = windows or ([(counted, passed)] if counted and passed else [])
    if not windows:
        return None
    middle = statistics.median(time / count for count, time in windows)
    rounded = 1.0 if all(clock == int(clock) for _, clock in points) else 1e-3
    return f"{middle:.6f} ± {(rounded + off * middle) / min(count for count, _ in windows):.6f}"


def _rounding(counts: Sequence[float]) -> float:
    """Return by how much the difference of two counts may be off; those that are equally far apart are exact."""
    if len({round(b - a, 9) for a, b in pairwise(counts)}) < 2:
        return 0.0
    last = min(int(Decimal(repr(count)).as_tuple().exponent) for count in counts)
    return 0.0 if all(count == int(count) for count in counts) else 10.0**last


def with_epoch_times(
    held: Sequence[Column], header: Sequence[Cell], body: Sequence[Sequence[Cell]]
) -> tuple[list[Column], list[Sequence[Cell]]]:
    """Return the columns of a history by epochs with `time` as that of an epoch, and the rows with its hours."""
    names = [bare(plain(cell[0])) for cell in header]
    places = [i for i, name in enumerate(names) if name == "time" and held[i].kind == "open"]
    if len(places) != 1 or len(body) < 2:
        return list(held), list(body)
    at = places[0]
    texts = [plain(text) for text in by_column(header, body)[at]]
    if {*names} >= OF_FASTAI:
        texts = [f"0:{text}" if HALF_CLOCK.fullmatch(text) else text for text in texts]
    try:
        times = [seconds_of(text) for text in texts]
    except ValueError:
        return list(held), list(body)
    each = [float(time[0].split(" ±")[0]) for time in times if time]
    if len(each) < len(times) or each[-1] >= GROWN * each[0]:
        return list(held), list(body)
    rows = [[*row[:at], (text, *row[at][1:]), *row[at + 1 :]] for row, text in zip(body, texts, strict=True)]
    return [Column("timed", "seconds_per_epoch") if i == at else one for i, one in enumerate(held)], rows
