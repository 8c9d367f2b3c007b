"""What a step may be: a micro-batch, and whose batch a column `batch_size` says.

A loop counts the batches of its loader, of which several may make up a step. A batch size is that of a device, or all
samples of an optimizer step. Both make the same of a comparison if the samples of a step differ by the batch alone: on
as many devices, accumulated as often. Where nothing in a report speaks against that, it is read as the batch of a
device, and the audit asks whether it was so, as it does beside `per_device_train_batch_size`. What may speak against it
is any column, word or claim that is not known to have nothing to do with the samples of a step.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from slowstep.audit.figures import Figure, figure
from slowstep.audit.relations import COUNT_STEPS
from slowstep.settings import Settings
from slowstep.settings.reported import MICRO_BATCH, Reported, Row

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


OF_STEPS = ("seconds_per_step", "steps_per_second")

WORDS = {
    "": re.compile(r"(?:\b|_)(?:steps?|updates?|ups)(?:\b|_)", re.IGNORECASE),
    "batch": re.compile(r"(?:\b|_)(?:batch(?:es)?|ba)(?:\b|_)", re.IGNORECASE),
    "it": re.compile(r"(?:\b|_)(?:its?|iters?|iterations?)(?:\b|_)", re.IGNORECASE),
}
"""What steps are called, with the words for it. The first that is said counts."""

ACCUMULATED = "gradient_accumulation_steps"
BATCH_OF_A_DEVICE = "per_device_train_batch_size"

SLOWER = 0.8
"""The ratio below which accumulating more makes no samples slower: the optimizer steps less often."""


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
    return (*figures, str(row.settings.get(BATCH_OF_A_DEVICE)))


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
