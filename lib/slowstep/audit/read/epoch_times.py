"""A column `time` in a history by epochs: the time of each epoch, where it does not grow as that since the start."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.audit.read.cells import Cell, bare, by_column
from slowstep.audit.read.columns import Column, plain
from slowstep.audit.read.durations import HALF_CLOCK, seconds_of

OF_FASTAI = {"train_loss", "valid_loss"}
"""Columns beside which `01:12` is minutes and seconds, as fastai prints them."""

GROWN = 1.5
"""How many times the first time the last one is at least where times count from the start."""


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
