"""Levels of a command in the words of its own program, by the labels that the kit knows them by."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.factors import label
from slowstep.investigation.results import Measured


def in_own_words(name: str, measured: Sequence[Measured]) -> str:
    """Return a label as the program would write it, if it is that of something `measured`; else the label."""
    return next((shown_as(m, name) for m in measured if label(m.contrast.levels) == name), name)


def shown_as(measured: Measured, name: str) -> str:
    """Return a change in the words of the program that it was made in; `name` for a run that is described."""
    return measured.verdict.shown if measured.verdict.lines else name
