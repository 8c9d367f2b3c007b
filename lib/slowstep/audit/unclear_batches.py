"""Columns and names that say `batch_size` and no more: the batch of a device, or all samples of an optimizer step.

Both make the same of a comparison if the samples of a step differ by the batch alone: on as many devices, accumulated
as often. Where nothing in a report speaks against that, it is read as the batch of a device, and the audit asks whether
it was so, as it does beside `per_device_train_batch_size`. What may speak against it is any column, word or claim that
is not known to have nothing to do with the samples of a step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from slowstep.settings import Settings
from slowstep.settings.reported import Reported, Row

SETTING = "per_device_train_batch_size"

BATCH_SIZE = re.compile(
    r"(?:train |training )?(?:(?:mini ?)?batch ?sizes?|bsz?)(?: ?[(\[](?:samples|sequences|seqs|images|imgs)[)\]])?"
)
BATCH = re.compile(r"(?:train |training )?(?:mini ?)?batch")
"""The header of a batch size, or of the number of each batch in turn."""

SAID = re.compile(
    r"(?<![\w.])(?P<name>batch[ _-]?size|batch|bsz?)[ _=:-]{0,2}(?P<size>\d{1,6})(?![\w.%/]| ?k?m? ?tok)", re.IGNORECASE
)
"""A batch size in the name of a row, or in one of its words: `bs32`, `batch size 32`."""

DEVICES_OR_PARTS = (
    r"gpus?|[ct]pus?|hpus?|cards?|devices?|machines?|nodes?|hosts?|replicas?|ranks?|procs?|process(?:es)?|accum\w*"
)
"""Words for what makes up a step together with a batch."""

OF_A_CLAIM = re.compile(rf"\b(?:{DEVICES_OR_PARTS})\b", re.IGNORECASE)

MORE = re.compile(
    rf"\b(?:{DEVICES_OR_PARTS}|workers|ddp|fsdp|zero|deepspeed|horovod|megatron|single|multi|dual|both|two|four|eight|"
    r"distributed|acc|gas?|[dtp]p|micro|global|effective|eff|total|tok(?:en)?s?|update freq|iter size|"
    r"subdivisions?|epochs?|steps?|iters?|iterations?)(?=\b|\d)|parallel|"
    r"[x×*] ?\d|\d ?[x×*]",
    re.IGNORECASE,
)
"""Words in the names and cells of rows that may say more of a step than its batch."""

HARMLESS = re.compile(
    r"\b(?:\w*loss|acc|accuracy|f1|auc|bleu|rouge|ppl|perplexity|score|mem(?:ory)?|v?ram|peak|util\w*|power|temp\w*|"
    r"lr|learning rate|seed|wd|weight decay|dropout|precision|dtype|amp|[bt]?f(?:p|loat)?16|f(?:p|loat)?32|tf32|"
    r"autocast|compiled?|torch compile|ckpt|\w*checkpoint(?:ing)?|attn|attention|flash|sdpa|optim(?:izer)?|scheduler|"
    r"warmup|num workers|prefetch\w*|pin(?:ned)?|cached?|model|params?|parameters|layers|date|notes?|comments?)\b"
)
"""Words in the headers of columns that have nothing to do with the samples of a step."""

PARTS = {"processes", "gradient_accumulation_steps"}
"""Factors that make up a step together with a batch."""

SAYS_SAMPLES = {"devices", "samples_per_step", "micro_batches_per_step", "tokens_per_step", "device_hours"}
"""Figures that say what makes up a step."""


def is_batch_size(header: str) -> bool:
    """Return whether a header calls a batch size and says not whose it is."""
    return bool(BATCH_SIZE.fullmatch(_bare(header)) or BATCH.fullmatch(_bare(header)))


def with_batches(settings: Settings, rows: Sequence[Row]) -> list[Row]:
    """Return the rows with unclear batch sizes as those of a device, where nothing speaks against that.

    They stand in one column that was not read, or else in the names and words of rows.
    """
    names = dict.fromkeys(name for row in rows for name in row.unread)
    columns = [name for name in names if is_batch_size(name)]
    sizes = _in_column(rows, columns) if columns else _in_names(rows)
    known = [size for size in sizes if size]
    if not known or _may_be_tokens(known, rows) or not _differ_by_nothing_else(rows, columns):
        return list(rows)
    if settings.training_arguments or _is_claimed(settings.reported):
        return list(rows)
    return [_with_batch(row, size, columns) for row, size in zip(rows, sizes, strict=True)]


def _in_column(rows: Sequence[Row], columns: Sequence[str]) -> list[int | None]:
    """Return the size in each row of the one column that holds batch sizes; [] if it may hold something else.

    Another text there, a name that says another size, or a second such column speak against it.
    """
    sizes = [_size(row, columns[0]) for row in rows]
    told = [size is not None or not row.unknown.get(columns[0]) for row, size in zip(rows, sizes, strict=True)]
    agree = [said <= {size} for said, size in zip(map(_said, rows), sizes, strict=True)]
    counted = BATCH.fullmatch(_bare(columns[0])) and _counts([size for size in sizes if size], rows)
    return sizes if len(columns) == 1 and all([*told, *agree]) and not counted else []


def _in_names(rows: Sequence[Row]) -> list[int | None]:
    """Return the batch size that the name and the words of each row say; [] if one says several, or if they count."""
    said = [_said(row) for row in rows]
    sizes = [next(iter(found), None) for found in said]
    counted = any(map(_says_batch_alone, rows)) and _counts([size for size in sizes if size], rows)
    return [] if counted or any(len(found) > 1 for found in said) else sizes


def _size(row: Row, column: str) -> int | None:
    """Return the batch size in a cell; None if it holds another text."""
    text = re.sub(r"\.0+$", "", row.unknown.get(column, "").strip())
    return int(text) if re.fullmatch(r"[1-9]\d{0,5}", text) else None


def _said(row: Row) -> set[int]:
    """Return the batch sizes that a row's name and words say."""
    return {int(one["size"]) for text in _words(row) for one in SAID.finditer(text)} - {0}


def _says_batch_alone(row: Row) -> bool:
    """Return whether a row's name or words say `batch 32`, which may be the number of a batch."""
    return any(one["name"].lower() == "batch" for text in _words(row) for one in SAID.finditer(text))


def _words(row: Row) -> list[str]:
    return [row.label, *row.unknown.values(), *row.remarks]


def _counts(sizes: Sequence[int], rows: Sequence[Row]) -> bool:
    """Return whether numbers may count the batches of a run, one by one or every so many, and be no sizes of them."""
    apart = {b - a for a, b in pairwise(sizes)}
    names = [re.sub(r" \(\d+\)$", "", row.label) for row in rows]
    named = all(not re.fullmatch(r"row \d+", name) for name in names) and len({*names}) == len(names)
    evenly = len(apart) == 1 and apart != {0} and (len(sizes) > 2 or (not named and sizes[0] in apart))
    return 1 in apart or evenly or (not named and len(sizes) > 2)


def _may_be_tokens(sizes: Sequence[int], rows: Sequence[Row]) -> bool:
    """Return whether batches may be counted in tokens, where samples of other lengths would be compared by that."""
    lengths = {row.settings.get("max_length") for row in rows}
    return len(lengths) > 1 and not all(isinstance(one, int) and max(sizes) < one for one in lengths)


def _is_claimed(reported: Reported | None) -> bool:
    """Return whether a claim is about devices or accumulation."""
    claims = reported.claims if reported else ()
    return any(claim.factor in PARTS or OF_A_CLAIM.search(claim.text) for claim in claims)


def _differ_by_nothing_else(rows: Sequence[Row], columns: Iterable[str]) -> bool:
    """Return whether rows say nothing else that may make up a step, beside the batch in `columns`."""
    for row in rows:
        figures = row.figures.keys()
        if SAYS_SAMPLES & figures or any(name.endswith("_per_device") for name in figures) or SETTING in row.settings:
            return False
        if "gradient_accumulation_steps" in row.settings or any(MORE.search(_bare(text)) for text in _words(row)):
            return False
    every = {name for row in rows for name in (*row.unread, *row.unknown, *row.beside)} - {*columns}
    return all(HARMLESS.search(_bare(name)) or _is_alike(name, rows) for name in every)


def _is_alike(name: str, rows: Sequence[Row]) -> bool:
    """Return whether a column says the same in all rows, or names each of them with its batch size."""
    texts = [row.unknown.get(name, str(row.beside[name]) if name in row.beside else None) for row in rows]
    return len({*texts}) == 1 or all(text is not None and SAID.search(text) for text in texts)


def _with_batch(row: Row, size: int | None, columns: Sequence[str]) -> Row:
    """Return a row with its batch, and without the columns and words that say nothing else."""
    return replace(
        row,
        settings=row.settings | ({SETTING: size} if size else {}),
        unread=[name for name in row.unread if name not in columns],
        unknown={k: t for k, t in row.unknown.items() if k not in columns and not SAID.fullmatch(t.strip())},
        beside={name: value for name, value in row.beside.items() if name not in columns},
    )


def _bare(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name.lower()).strip()
