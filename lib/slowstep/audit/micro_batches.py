"""Steps that may be micro-batches: a loop counts the batches of its loader, of which several may make up a step."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from slowstep.audit.figures import Figure, figure
from slowstep.audit.relations import COUNT_STEPS
from slowstep.settings import Settings
from slowstep.settings.reported import MICRO_BATCH, Row

OF_STEPS = ("seconds_per_step", "steps_per_second")

WORDS = {
    "": re.compile(r"(?:\b|_)(?:steps?|updates?|ups)(?:\b|_)", re.IGNORECASE),
    "batch": re.compile(r"(?:\b|_)(?:batch(?:es)?|ba)(?:\b|_)", re.IGNORECASE),
    "it": re.compile(r"(?:\b|_)(?:its?|iters?|iterations?)(?:\b|_)", re.IGNORECASE),
}
"""What steps are called, with the words for it. The first that is said counts."""

ACCUMULATED = "gradient_accumulation_steps"
BATCH = "per_device_train_batch_size"

SLOWER = 0.8
"""The ratio below which accumulating more makes no samples slower: the optimizer steps less often."""


def step_word(said: str) -> str:
    """Return what a header or a cell calls a step that may be a micro-batch, `it` or `batch`; empty for a step."""
    return next((word for word, words in WORDS.items() if words.search(said)), "")


def with_micro_batches(settings: Settings, rows: Sequence[Row]) -> list[Row]:
    """Return the rows, those marked whose epochs and paces show that they count micro-batches.

    An epoch has as many of these however many are accumulated, and each takes about as long.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row.step_word and "steps_per_epoch" in row.figures:
            groups.setdefault(_epoch_of(row), []).append(row)
    counting = {row.label for group in groups.values() if _count_micro_batches(settings, group) for row in group}
    return [replace(row, step_word=MICRO_BATCH) if row.label in counting else row for row in rows]


def _epoch_of(row: Row) -> tuple[str, ...]:
    """Return what rows have in common whose epochs have as many batches of the same size."""
    figures = (str(row.figures.get(name)) for name in ("steps_per_epoch", "devices"))
    return (*figures, str(row.settings.get(BATCH)))


def _count_micro_batches(settings: Settings, group: Sequence[Row]) -> bool:
    """Return whether rows accumulate other numbers of what they count, and take about as long for each."""
    parts = [row.settings.get(ACCUMULATED, settings.training(ACCUMULATED)) for row in group]
    if not all(isinstance(each, int) and each > 0 for each in parts) or len({*parts}) < 2:
        return False
    paces = [row.figures[name] for row in group for name in OF_STEPS if name in row.figures]
    try:
        each = [figure(pace).middle for pace in paces]
    except ValueError:  # what is no number is told where its row is read
        return False
    return len(each) == len(group) and max(each) < min(each) * math.sqrt(max(parts) / min(parts))


def in_steps(figures: Mapping[str, Figure], parts: int) -> dict[str, Figure]:
    """Return the figures of a run that counts micro-batches, of which so many make up a step, as those of its steps."""
    return {
        q: held if q not in COUNT_STEPS else held * parts if COUNT_STEPS[q] else held / parts
        for q, held in figures.items()
    }


def makes_more_sense(other: Figure, gain: Figure, more: float) -> bool:
    """Return whether another reading of the steps of two rows is as probable, by which `other` is the gain.

    Rows that accumulate so many times `more` are more alike by it, and not slower.
    """
    if not (gain.bounded and other.bounded):
        return False
    for_more = other.middle if more > 1 else 1 / other.middle
    return abs(math.log(other.middle)) < abs(math.log(gain.middle)) and for_more > SLOWER
