"""The rows of a log with what the head of each training states, as settings and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from slowstep.audit.figures import Figure, figure
from slowstep.audit.read.heads import (
    ACCUMULATED,
    BATCH,
    DEVICES,
    OF_A_STEP,
    PACKING,
    SAMPLES,
    SETTINGS,
    STEPS,
    UNCLEAR,
    Head,
    Heads,
)
from slowstep.audit.read.trainer_state import samples_of
from slowstep.audit.relations import FITS
from slowstep.settings.reported import MICRO_BATCH

SHORT = 0.1
"""The share by which the samples of a step may be fewer by a run's figures, as the last batch of an epoch is short."""

PACKED = {"padding": "packing", "tokenize": "once"}
"""The settings of a run that packs several samples into one."""

OFF = 0.01
"""The share by which counts may be off that rounded speeds make."""


def with_heads(rows: Sequence[dict[str, Any]], heads: Heads, places: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return the rows of a log with what its heads state.

    `places` are those where the bars of each row begin, the first and the last of them, or where its last words stand.
    A log whose lines say its speed has one row and none of these; everything in it is of that row.
    """
    begins = [0, *(last for _, last in places[:-1])]
    ends = [first + 1 for first, _ in places] or [math.inf]
    return [_with_head(row, heads.of(begin, end)) for row, begin, end in zip(rows, begins, ends, strict=True)]


def _with_head(row: dict[str, Any], head: Head) -> dict[str, Any]:
    """Return a row with what its head states."""
    values, asked = _agreeing_with_figures(row, dict(head.values))
    settings = {what: values[what] for what in SETTINGS if what in values and what != PACKING}
    settings |= PACKED if values.get(PACKING) else {}
    unclear = [UNCLEAR] if UNCLEAR in values else []
    unread = [what for what in values if what not in SETTINGS and what not in (SAMPLES, DEVICES, STEPS, PACKING)]
    if unclear and settings.pop(ACCUMULATED, None):  # by itself it would make steps unlike that have as many samples
        unread.append(ACCUMULATED)
    return row | {
        "figures": row["figures"] | {what: str(values[what]) for what in (SAMPLES, DEVICES) if what in values},
        "settings": settings,
        "of_head": list(settings | (PACKED if PACKING in values else {})),
        "unknown": {what: str(values[what]) for what in unread},
        "unread": unclear,
        "questions": [*row["questions"], *head.questions, *asked],
    }


def _agreeing_with_figures(row: dict[str, Any], values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return what a head states without what the figures of its row make doubtful, and questions about that.

    Samples a step follow from Trainer's last words, too, and are fewer there if the last batch of an epoch is short.
    """
    by_words = _samples_of(row["figures"])
    total = values.get(SAMPLES)
    if by_words and total and not (by_words.low <= total * (1 + OFF) and by_words.high >= total * (1 - SHORT)):
        asked = (
            f"its head says {total:,} samples a step, and its figures make {by_words.middle:.4g}: are the last batches "
            "of its epochs short?"
        )
        return {what: value for what, value in values.items() if what not in (*OF_A_STEP, DEVICES)}, [asked]
    if by_words and not total and {BATCH, ACCUMULATED} <= values.keys():
        devices = by_words.middle / (values[BATCH] * values[ACCUMULATED])
        near = 2 ** round(math.log2(devices))
        if near < 1 or abs(devices / near - 1) > FITS:  # as real nodes have; any number would fit otherwise
            return {what: value for what, value in values.items() if what not in OF_A_STEP}, []
        return values | ({DEVICES: near} if near > 1 and DEVICES not in values else {}), []
    if total and not _counts_steps(row, values):
        values.pop(SAMPLES)
        what = "does its bar" if "planned" in row["rests_on"] else "do its lines"
        asked = f"its head says {total:,} samples a step: {what} count steps, or the micro-batches of steps?"
        return values, [] if {ACCUMULATED, BATCH} <= values.keys() else [asked]
    return values, []


def _samples_of(figures: Mapping[str, Any]) -> Figure | None:
    """Return the samples of a step by the figures of a row, if they say some."""
    said = figures.get(SAMPLES) or samples_of(dict(figures)).get(SAMPLES)
    return figure(said) if said else None


def _counts_steps(row: dict[str, Any], values: Mapping[str, Any]) -> bool:
    """Return whether a row is known to count steps, or micro-batches of which a step is known to have so many."""
    by_lines = "planned" not in row["rests_on"] and not values.keys() & {ACCUMULATED}
    if not row["step_word"] or values.get(ACCUMULATED) == 1 or by_lines:
        return True
    if row["step_word"] == MICRO_BATCH:
        return ACCUMULATED in values
    steps = row["rests_on"].get("planned", 0)
    return bool(values.get(STEPS)) and abs(steps - values[STEPS]) <= OFF * values[STEPS]
