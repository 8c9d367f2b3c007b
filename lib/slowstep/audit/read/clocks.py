"""Columns that hold points in time, such as TensorBoard's `Wall time`: seconds or milliseconds since 1970."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from itertools import pairwise

from slowstep.audit.read.courses import SETTLED, number

OF_A_TIME = re.compile(r"time|date|clock|\bts\b|seconds", re.IGNORECASE)
"""Words of the header of a column that may hold points in time."""

CLOCKS = {1.0: (1e9, 2e9), 1e-3: (1e12, 2e12)}
"""Units of seconds since 1970, each with the numbers from 2001 to 2033. No training takes 30 years."""

WINDOW = 20.0
"""The seconds that are looked at together, since clocks are rounded and single steps uneven."""


def clock_unit(header: str, cells: Sequence[str]) -> float:
    """Return the unit, in seconds, of the points in time that a column holds; 0 if it holds something else."""
    values = [number(cell) for cell in cells if cell.strip()] if OF_A_TIME.search(header) else []
    if not values or None in values:
        return 0.0
    return next((u for u, (low, high) in CLOCKS.items() if all(low <= value < high for value in values)), 0.0)


def pace_by_clock(points: Sequence[tuple[float, float]]) -> str | None:
    """Return the seconds a step by steps and their clocks: the median of the later half; None if none follows.

    A step that was logged twice, or a clock that stands still, says nothing.
    """
    points = points[int(SETTLED * len(points)) :]
    windows: list[tuple[float, float]] = []
    counted = passed = 0.0
    for (a, before), (b, after) in pairwise(points):
        if b < a or after < before:
            return None
        counted, passed = counted + b - a, passed + after - before
        if counted and passed >= WINDOW:
            windows.append((counted, passed))
            counted = passed = 0.0
    windows = windows or ([(counted, passed)] if counted and passed else [])
    if not windows:
        return None
    middle = statistics.median(time / count for count, time in windows)
    rounded = 1.0 if all(clock == int(clock) for _, clock in points) else 1e-3
    return f"{middle:.6f} ± {rounded / min(count for count, _ in windows):.6f}"
