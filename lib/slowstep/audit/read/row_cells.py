"""What the cells of one row of a table say, also of another row: `1.35x`, `+35 %`, and which row that is to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from slowstep.audit.figures import COMMA, comma, parse, says_spread
from slowstep.audit.read.cells import Cell
from slowstep.audit.read.columns import (
    MEASURED,
    NOTE,
    NOTHING,
    OF_TEXT,
    ONLY_OUT_OF_MEMORY,
    OUT_OF_MEMORY,
    RELATIVE,
    Column,
    device_in,
    figure,
    plain,
)
from slowstep.audit.read.measures import counted_devices, number
from slowstep.audit.read.source_text import Unreadable
from slowstep.audit.read.unknown_columns import UNSET, is_word, may_be_setting, may_be_size
from slowstep.audit.relations import TITLES
from slowstep.audit.run import BESIDE
from slowstep.audit.unclear_batches import OF_STEPS, step_word
from slowstep.text.sentences import listed

LONGEST_RATIO = 100
"""The most characters of a cell that a question shows."""

RATIO = re.compile(
    r"(?P<about>[~≈]?)\s?(?P<sign>[-+−–]?)(?P<number>\d+(?:,\d+)*(?:\.\d+)?)\s*(?P<unit>x|×|%)?"
    r"(?:\s*(?P<word>faster|speed-?up))?",
    re.IGNORECASE,
)

FASTER = "how many times as fast is that, as in 1.35"

BASE = re.compile(r"\(?(?:the )?(?:base|baseline|ref|reference|control|0(?:\.0+)?(?: ?%)?)\.?\)?", re.IGNORECASE)

FIRST = ((re.compile(r"100(?:\.0+)? ?%"), "whole"), (re.compile(r"0(?:\.0+)?(?: ?%)?"), "more"))
"""The cell of the row that others are to, with what it tells of their percentages (`Column.percentage`)."""


LONGEST = 1_000
"""The most characters of a name or a word of a row."""

TWICE = (
    "this row has {} twice, {} and {}: which counts? Leave one column out, say in `columns` what it holds, or write "
    "them as two rows if they are two runs"
)


def read_row(
    cells: Sequence[Cell], held: Sequence[Column], header: Sequence[Cell], source: str, at_row: int
) -> dict[str, Any]:
    """Return a row of a table; Unreadable names the cell that can't be read. `at_row` names a row without a label."""
    row = _RowSoFar(source)
    for cell, one, (name, *_) in zip(cells, held, header, strict=True):
        row.take(cell, one, plain(name))
    return row.found(f"row {at_row}", cells[0][1])


@dataclass
class _RowSoFar:
    """What the cells of a row say that were taken so far."""

    source: str
    labels: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    phases: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    """The place of each setting's cell."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Cells that may be settings, by column."""
    bases: list[str] = field(default_factory=list)
    beside: dict[str, float] = field(default_factory=dict)
    """Numbers that were not read, by column."""
    remarks: list[str] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)
    """The remarks by column."""
    sizes: dict[str, str] = field(default_factory=dict)
    """Numbers with decimals that may be settings, by column."""
    with_spread: bool = False
    without_padding: bool = False
    word: str = ""
    """What the table calls a step, where it says how many or how long they are."""
    failed: bool = False
    """True if a measured cell says that the run went out of memory."""
    remarked: bool = False
    """True if any cell says so that holds no setting."""

    def take(self, cell: Cell, held: Column, name: str) -> None:
        """Take a cell of the column `name`; Unreadable if it can't be read."""
        text, line, at = cell
        self._take_words(plain(text), held, name)
        if held.kind == "stated" and is_base(text):
            self.bases.append(held.name)
        self.with_spread = self.with_spread or (held.kind in MEASURED and says_spread(text))
        if held.kind in ("label", "factor", "ignored"):
            return
        if device := device_in(name):
            self.unknown[name] = device
        if counted := counted_devices(text, held):
            text, device = counted
            self.unknown |= {name: device} if device else {}
        try:
            found = self._take_value(text, held)
        except ValueError as error:
            raise Unreadable(self.source, line, at, f"{name or 'this column'}: {error}") from None
        self.without_padding |= bool(found) and held.unit == OF_TEXT
        if found and found[0] in OF_STEPS:
            self.word = step_word(f"{name} {plain(text)}")
        if found and held.kind == "setting":
            self.places[found[0]] = f"{self.source}:{line}:{at}"
        measured = held.kind in MEASURED
        said = OUT_OF_MEMORY.search(plain(text)) if measured else ONLY_OUT_OF_MEMORY.fullmatch(plain(text))
        self.failed = self.failed or (measured and bool(said))
        self.remarked = self.remarked or (held.kind != "setting" and bool(said))

    def _take_words(self, text: str, held: Column, name: str) -> None:
        """Take what a cell says by its words, whose column may not be read."""
        if held.kind == "label":
            self.labels.append(text)
        elif held.kind == "factor" and text not in ("", "-"):
            self.unknown[held.name] = text
        if held.kind not in ("ignored", "open") or (held.kind == "ignored" and not name):
            return
        if may_be_setting(name, text):
            self.unknown[name] = text
        elif may_be_size(name, text):
            self.sizes[shortened(name)] = shortened(text)
        elif is_word(text):
            self.remarks.append(shortened(text))
            self.told[shortened(name)] = shortened(text)
        if (value := number(text)) is not None and math.isfinite(value):
            self.beside[shortened(name)] = value

    def _take_value(self, text: str, held: Column) -> tuple[str, Any] | None:
        """Take and return the setting, phase or figure that a cell holds; None if it holds none."""
        if held.kind == "setting":
            found, into = _setting(text, held), self.settings
        else:
            found = stated(text, held) if held.kind == "stated" else figure(text, held)
            into = self.phases if held.kind == "phase" else self.figures
        _keep(into, found)
        return found

    def found(self, name: str, line: int) -> dict[str, Any]:
        """Return the row in this line. It is called `name` if no cell names it."""
        return {
            "label": shortened(" ".join(filter(None, self.labels))) or name,
            "settings": self.settings,
            "figures": self.figures,
            "phases": self.phases,
            "named": any(self.labels),
            "unknown": {shortened(column): shortened(text) for column, text in self.unknown.items()},
            "bases": self.bases,
            "questions": [],
            "beside": self.beside,
            "remarks": self.remarks,
            "told": self.told,
            "sizes": self.sizes,
            "with_spread": self.with_spread,
            "without_padding": self.without_padding,
            "step_word": self.word,
            # a remark on a row that was measured is of another one
            "out_of_memory": self.failed or (self.remarked and not self.figures),
            "place": f"{self.source}:{line}",
            "cells": self.places,
        }


def shortened(text: str) -> str:
    """Return a text that is shown again and again, without what is beyond its first characters."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _keep(into: dict[str, Any], found: tuple[str, Any] | None) -> None:
    """Keep what a cell says; ValueError if another cell of the row says something else about the same."""
    if not found:
        return
    name, value = found
    held, title = into.setdefault(name, value), (TITLES | BESIDE).get(name)
    if held != value and not (title and parse(held).meets(parse(value))):
        raise ValueError(TWICE.format(title or name, held, value))


def _setting(cell: str, held: Column) -> tuple[str, Any] | None:
    """Return the setting and value of a cell: a switch, a number or a word; None where none is given.

    ValueError for a comma that could be a decimal point.
    """
    text = plain(cell)
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if text.lower() in (*UNSET, *NOTHING):
        return None
    if re.fullmatch(r"\d+\.0+", text):  # as spreadsheets write whole numbers beside empty cells
        text = text.partition(".")[0]
    if COMMA.fullmatch(text):
        parse(text)
    if text.lower() in words:
        return held.name, words[text.lower()]
    for kind in (int, float):
        try:
            return held.name, kind(text.replace(",", ""))
        except ValueError:
            continue
    return held.name, text


def with_percentages(held: Column, cells: Sequence[str]) -> Column:
    """Return a column of speed-ups with what its percentages are: by its first row, which states 100 % or 0 %."""
    if held.kind != "stated" or held.name != "speed_up":
        return held
    first = next((text for text in map(_said, cells) if text.lower() not in NOTHING), "")
    told = next((what for pattern, what in FIRST if pattern.fullmatch(first)), "")
    return replace(held, percentage=told or held.percentage)


def stated(cell: str, held: Column) -> tuple[str, str] | None:
    """Return a ratio that a cell states, `1.35x`, `+35 %` or an efficiency of `91 %`; None for anything else.

    A speed-up of `135 %` may be either of two things, and is read only where the column tells which, or where it says
    `faster`. ValueError for a comma that could be a decimal point.
    """
    found = RATIO.fullmatch(_said(cell))
    if is_base(cell):
        return None
    if not found:
        return _spread(_said(cell), held)
    about, sign, number, unit, word = found.groups()
    sign = "-" if sign in ("−", "–") else sign
    if "," in number:
        raise ValueError(comma(number) if COMMA.fullmatch(number) else f"expected a number, found '{number}'")
    if held.name == "scaling_efficiency":
        return None if sign or unit in ("x", "×") else (held.name, about + number + (unit or ""))
    if held.name == "time_left":
        return _time_left(about, sign, number, unit or held.unit, held)
    if (unit or held.unit) == "%":
        share = Decimal(sign + number) / 100
        if sign or (word or "").lower() == "faster" or held.percentage == "more":
            return (held.name, f"{about}{1 + share}") if share > -1 else None  # no speed falls by more than all of it
        return (held.name, f"{about}{share}") if held.percentage == "whole" and share else None
    return None if sign or not float(number) else (held.name, about + number)


def _time_left(about: str, sign: str, number: str, unit: str, held: Column) -> tuple[str, str] | None:
    """Return how many percent of a time are left after a change of `-22 %`, or where `22 %` of it are saved.

    A change without a sign could be either, and so could a sign before what is saved.
    """
    if unit != "%" or bool(sign) != (held.percentage == "changed"):
        return None
    left = 100 + Decimal(sign + number) if sign else 100 - Decimal(number)
    return (held.name, f"{about}{left}") if left > 0 else None


def _spread(text: str, held: Column) -> tuple[str, str] | None:
    """Return a speed-up with its spread or as a range, `2.0x ± 0.1` or `1.2-1.4x`; None for anything else."""
    try:
        found = parse(text) if held.name == "speed_up" and text[:1].isdigit() and "%" not in text else None
    except ValueError:
        return None
    return (held.name, text) if found and found.low > 0 else None


def is_base(cell: str) -> bool:
    """Return whether a cell in a column of ratios says that its row is the one that they are to, or says nothing."""
    text = _said(cell)
    return text.lower() in NOTHING or bool(BASE.fullmatch(text))


def odd_ratios(names: Sequence[str], columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """Ask about ratios that columns state in a way that is not read; `cells` are those of each column."""
    for name, held, texts in zip(names, columns, cells, strict=True):
        odd = [plain(text)[:LONGEST_RATIO] for text in texts if held.kind == "stated" and _not_understood(text, held)]
        if odd:
            said = listed([f"'{text}'" for text in odd], " and ")
            asked = "is that more or less time, as in -22 %" if held.name == "time_left" else FASTER
            yield f"'{name}' says {said}, which is not read: {asked}?"


def _not_understood(cell: str, held: Column) -> bool:
    return any(c.isdigit() for c in cell) and not is_base(cell) and stated(cell, held) is None


def _said(cell: str) -> str:
    return RELATIVE.sub("", NOTE.sub("", plain(cell))).strip()
