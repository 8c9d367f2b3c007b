"""Columns and names that say `batch_size` and no more: the batch of a device, or all samples of an optimizer step.

Both readings make the same of each comparison as long as nothing else makes up a step: the samples of a step differ by
one factor, which all rows have. So it is read as the batch of a device where no row says anything of devices or
accumulation, and the audit asks whether there were any, as it does beside `per_device_train_batch_size`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from slowstep.settings import Settings
from slowstep.settings.reported import Row

SETTING = "per_device_train_batch_size"

BATCH_SIZE = re.compile(
    r"(?:train |training )?(?:(?:mini ?)?batch ?sizes?|bs|bsz)"
    r"(?: ?[(\[](?:samples|sequences|seqs|images|imgs|examples)[)\]])?"
)
BATCH = re.compile(r"(?:train |training )?(?:mini ?)?batch")
"""The header of a batch size, or of the number of each batch in turn."""

MAKES_UP_A_STEP = re.compile(
    r"gpu|cpus?\b|devic|node|host|rank|proc|world|accum|\bacc\b|\bga\b|\b[dtp]p\b|parallel|micro|global|effective"
)
"""Words of other columns that make up a step together with a batch."""


SAID = re.compile(r"(?<![\w.])(?:batch[ _-]?size|batch|bsz?)[ _=:-]{0,2}(\d{1,6})(?![\w.%/])", re.IGNORECASE)
"""A batch size in the name of a row, or in one of its words: `bs32`, `batch size 32`."""


def with_batches(settings: Settings, rows: Sequence[Row]) -> list[Row]:
    """Return the rows with unclear batch sizes as those of a device, where that makes no difference to what is said.

    They stand in one column that was not read, or else in the names and words of rows.
    """
    if settings.training_arguments or any(map(_says_more, rows)):
        return list(rows)
    names = dict.fromkeys(name for row in rows for name in row.unread)
    named = [name for name in names if _is_batch(name, rows)]
    if named:
        return [_with_batch(row, named[0]) for row in rows] if len(named) == 1 else list(rows)
    said = [_said(row) for row in rows]
    if any(BATCH.match(_bare(name)) or BATCH_SIZE.match(_bare(name)) for name in names) or _counts(said):
        return list(rows)
    return [_with_size(row, size) if size else row for row, size in zip(rows, said, strict=True)]


def _is_batch(name: str, rows: Sequence[Row]) -> bool:
    """Return whether a column that was not read holds batch sizes."""
    header = _bare(name)
    sizes = [_size(row.unknown, name) for row in rows if name in row.unknown]
    is_one = BATCH_SIZE.fullmatch(header) or (BATCH.fullmatch(header) and not _counts(sizes))
    return bool(is_one and sizes and None not in sizes)


def _counts(sizes: Sequence[int | None]) -> bool:
    """Return whether numbers count things in turn, and are no sizes of them."""
    return len(sizes) > 2 and all(b is not None and a is not None and b - a == 1 for a, b in pairwise(sizes))


def _said(row: Row) -> int | None:
    """Return the batch size that a row's name and words say; None if they say none, or several."""
    found = {int(size) for text in (row.label, *row.unknown.values()) for size in SAID.findall(text)}
    return next(iter(found)) or None if len(found) == 1 else None


def _says_more(row: Row) -> bool:
    """Return whether a row says what else makes up a step, or how many samples a step has."""
    figures = {"devices", "samples_per_step", "micro_batches_per_step", "tokens_per_step", "device_hours"}
    if figures & row.figures.keys() or any(name.endswith("_per_device") for name in row.figures):
        return True
    if {SETTING, "gradient_accumulation_steps"} & row.settings.keys():
        return True
    words = (row.label, *row.unread, *row.unknown, *row.unknown.values())
    return any(MAKES_UP_A_STEP.search(_bare(text)) for text in words)


def _with_batch(row: Row, name: str) -> Row:
    """Return a row with the size in a column as its batch, and without the column."""
    size = _size(row.unknown, name)
    unread = [one for one in row.unread if one != name]
    beside = {key: value for key, value in row.beside.items() if key != name}
    return _with_size(replace(row, unread=unread, beside=beside), size, name) if size else row


def _with_size(row: Row, size: int, column: str = "") -> Row:
    """Return a row with its batch, and without a `column` or words that say nothing else."""
    unknown = {key: text for key, text in row.unknown.items() if key != column and not SAID.fullmatch(text.strip())}
    return replace(row, settings=row.settings | {SETTING: size}, unknown=unknown)


def _size(cells: Mapping[str, str], name: str) -> int | None:
    """Return the batch size in a cell; None if it holds another text."""
    text = re.sub(r"\.0+$", "", cells.get(name, "").strip())
    return int(text) if re.fullmatch(r"[1-9]\d{0,5}", text) else None


def _bare(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name.lower()).strip()
