"""What rows are about beside their settings: models, devices and data sets, which make a row unlike those beside it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from slowstep.audit.read.unknown_columns import WORD, is_word
from slowstep.audit.run import ReportedRun
from slowstep.judgement.devices import PEAKS, Peak, family_of, peak_of

COLUMNS = re.compile(
    r"(?:.*\W)?(?:model|neural network|backbone|arch(?:itecture)?|(?<!activation )(?<!gradient )checkpoint|device|"
    r"[gct]pu|hardware|hw|accelerator|machine|instance|cluster|platform|(?<!file )(?<!operating )system|chip|card|"
    r"processor|data ?set|corpus|task|data)s?(?: (?:name|type|kind|family|variant|version|config|size|id|or|path))*\W*"
    r"(?:[(\[].*)?",
    re.IGNORECASE,
)
"""Headers of columns that say what a row is about. Where their words differ, so may speeds, by a large factor.

The last noun counts: `file system`, `data parallel` and `device map` are of none.
"""

SIZE = re.compile(r"(?<![\w.])\d{1,4}(?:\.\d{1,3})? ?[MB]\b|(?<=[-_ ])\d{1,4}(?:\.\d{1,3})? ?[mb]\b")
"""Sizes of models in words, `350M` and `llama-7b`."""

SIZE_COLUMNS = re.compile(
    r"param|\bsize|layer|hidden|width|depth|\bdim|d_model|resolution|pixels|tokens|length|\blen\b", re.IGNORECASE
)
"""Headers of columns whose numbers say how large a model or a sample is."""

OF_MEMORY = re.compile(r"\d+gi?b")
"""A word of a device that names none."""

LARGER = 3.0
"""How many times as large a number of such a column is at least that makes a row unlike those beside it."""


def other_subject(row: ReportedRun, beside: Sequence[ReportedRun]) -> bool:
    """Return whether a row is about another model, device or data set than each row beside it, by its words."""
    return all(_subjects(row) != _subjects(other) for other in beside)


def _subjects(row: ReportedRun) -> frozenset[str]:
    """Return the words of a row that say what it is about."""
    words = row.unknown.items()
    by_column = (f"{name}: {text}" for name, text in words if COLUMNS.fullmatch(WORD.sub(" ", name)) and is_word(text))
    settings = row.settings.model
    by_setting = (f"model: {said}" for said in (settings.name_or_path, settings.model_type, settings.config) if said)
    return frozenset((*by_column, *by_setting, f"data: {row.settings.dataset.name_or_path}", *_named(row)))


def _named(row: ReportedRun) -> Iterator[str]:
    """Yield the devices and the sizes of models that the words of a row name."""
    for text in (row.label, *row.unknown.values()):
        yield from filter(_names_device, re.split(r"[^a-z0-9]+", text.lower()))
        yield from (found[0].strip().lower() for found in SIZE.finditer(text))


@functools.lru_cache(maxsize=4096)
def _names_device(word: str) -> bool:
    """Return whether a word is that of a known device: `a100`, `4090`."""
    if word in ("cpu", "tpu", "mps"):
        return True
    numbered = len(word) > 1 and any(c.isdigit() for c in word) and not OF_MEMORY.fullmatch(word)
    return numbered and bool(peak_of(word) or family_of(word))


def named_peak(run: ReportedRun, device: str | None, what: str) -> tuple[str, float]:
    """Return the device of a row, that of the report or the one that its words name, and `what` its data sheet says.

    Both are empty where that is not clear, as for a name that several devices share whose peaks differ.
    """
    words = (run.label, *run.unknown.values(), *run.remarks)
    names = [device] if device else [re.sub(r"^\d+ ?[x×] ?", "", text.strip()) for text in words]
    found = {name: values for name in names if len(values := {getattr(peak, what) for peak in _peaks_of(name)}) == 1}
    name, values = next(iter(found.items())) if len(found) == 1 else ("", {0.0})
    return name, values.pop() or 0.0


def _peaks_of(name: str) -> list[Peak]:
    """Return the peaks of the devices that a name may mean."""
    one = peak_of(name)
    return [one] if one else [PEAKS[other] for other in family_of(name)]


def unread_difference(row: ReportedRun, beside: Sequence[ReportedRun]) -> str:
    """Return a column that was not read and in which a row differs from each row beside it, with its word; or nothing.

    Numbers count where their header says a size, and where they are far apart.
    """
    for name, text in row.unknown.items():
        others = [other.unknown.get(name) for other in beside]
        if None not in others and text not in others:
            return f"{name} ({text})"
    for name, value in row.beside.items():
        each = [other.beside.get(name, 0.0) for other in beside]
        far = value > 0 and min(each) > 0 and (value >= LARGER * max(each) or LARGER * value <= min(each))
        if SIZE_COLUMNS.search(name) and far:
            return f"{name} ({value:g})"
    return ""
