"""A part of the proof: cells to measure one by one, and the goals that their figures are held against."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.gpu import kept
from bench.gpu.scale import Scale

Figures = dict[str, Any]
"""What a cell measured, as JSON takes it."""

Cells = Mapping[str, Figures]
"""The figures of the cells that are known, by name."""

MOST_MINUTES = 8.0
"""The most minutes that a part may be expected to take on a device."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A run of the parts: how large it is, and where its results go."""

    scale: Scale
    out: Path
    """The folder of the results."""
    deadline: float = float("inf")
    """The time, by `time.monotonic()`, at which the call is to be over."""
    cells: float = float("inf")
    """The most cells of each part that are measured in this call."""
    commit: str = ""
    """The commit of the tree, where git can't tell it."""

    @property
    def work(self) -> Path:
        """The folder of parameter files, records and logs."""
        return self.out / "gpu-work"

    @property
    def minutes_left(self) -> float:
        """The minutes until the call is to be over."""
        return (self.deadline - time.monotonic()) / 60

    def known(self, part: str) -> dict[str, Figures]:
        """Return the figures of a part's cells, as far as they are known."""
        return kept.figures(self.out, part)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The smallest thing that is measured and kept by itself."""

    name: str
    measure: Callable[[Bench], Figures]
    minutes: float
    """The minutes that it is expected to take on a device."""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A figure that was wanted, and whether it was reached."""

    asked: str
    wanted: str
    value: Callable[[Cells], Any]
    """Returns the figure, or None as long as it can't be told from these cells."""
    holds: Callable[[Any], bool]

    def judged(self, cells: Cells) -> Figures:
        """Return the figure beside what was wanted; `holds` is None as long as it is not known."""
        try:
            value = self.value(cells)
        except (LookupError, ArithmeticError, TypeError, ValueError):  # cells are missing, or hold a failure
            value = None
        holds = None if value is None else bool(self.holds(value))
        return {"asked": self.asked, "measured": value, "wanted": self.wanted, "holds": holds}


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some cells with one question. Parts with one `room` answer it together, and share its goals."""

    name: str
    title: str
    cells: Sequence[Cell]
    goals: Sequence[Goal] = ()
    room: Sequence[str] = field(default_factory=tuple)
    """The parts whose cells the goals need, this one included; empty for this one alone."""

    @property
    def minutes(self) -> float:
        """The minutes that it is expected to take on a device."""
        return sum(cell.minutes for cell in self.cells)

    def judged(self, bench: Bench) -> list[Figures]:
        """Return its goals, held against all cells that are known."""
        cells = {name: figures for part in self.room or (self.name,) for name, figures in bench.known(part).items()}
        return [goal.judged(cells) for goal in self.goals]


class NotYet(Exception):
    """A cell needs another one that is not measured yet. It stays open."""
