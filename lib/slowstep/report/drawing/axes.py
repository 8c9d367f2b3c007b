"""The axes of a drawing, read from a plotly figure: which values they hold, and where these lie."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MOST = 7
"""The most round numbers that an axis shows."""

Trace = Mapping[str, Any]
"""A trace of a figure, as plotly's JSON has it."""


@dataclass(frozen=True)
class Axis:
    """An axis: where a value of it lies in the drawing."""

    start: float
    """The place of its low end, in units of the drawing."""
    end: float
    low: float
    high: float
    names: tuple[str, ...] = ()
    """The categories in their order; empty for a linear axis."""
    title: str = ""

    def place(self, value: Any) -> float:
        """Return the place of a value, or of a category."""
        return self.at(self.names.index(str(value)) if self.names else float(value))

    def at(self, number: float) -> float:
        """Return the place of a number; categories are counted from 0."""
        return self.start + (number - self.low) / ((self.high - self.low) or 1.0) * (self.end - self.start)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Return the place and the text of each tick."""
        if self.names:
            return [(self.place(name), name) for name in self.names]
        return [(self.place(value), _number(value)) for value in nice(self.low, self.high)]


def categories(traces: Iterable[Trace], letter: str, layout: Mapping[str, Any]) -> list[str]:
    """Return the categories of an axis in their order; none for a linear axis."""
    given = layout.get(f"{letter}axis", {})
    values = [v for trace in traces for v in trace.get(letter) or ()]
    categorical = given.get("type") == "category" or any(number(v) is None for v in values if v is not None)
    if not categorical:
        return []
    named = [str(name) for name in given.get("categoryarray") or ()]
    return list(dict.fromkeys([*named, *(str(v) for v in values if v is not None)]))


def title(layout: Mapping[str, Any], axis: str) -> str:
    """Return the title of an axis; empty if it has none."""
    found = layout.get(axis, {}).get("title") or ""
    return found if isinstance(found, str) else found.get("text", "")


def number(value: Any) -> float | None:
    """Return a value as a number; None if it is none."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _number(value: float) -> str:
    return f"{value:,.6g}".replace("-", "−")


def nice(low: float, high: float) -> list[float]:
    """Return at most `MOST` round numbers between `low` and `high`, in steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / MOST
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(step * i, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]
