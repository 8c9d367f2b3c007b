"""Which quantity a column or a cell holds, by the unit that stands in it; never by a guess."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from slowstep.audit.figures import parse
from slowstep.audit.relations import TITLES
from slowstep.audit.run import BESIDE, QUESTIONS, SAY

SECOND, STEP = r"(?:s|secs?|seconds?)", r"(?:it|iters?|iterations?|steps?|batch|batches)"
SAMPLE, TOKEN = r"(?:samples?|examples?|ex|seqs?|sequences?|images?|imgs?)", r"(?:toks?|tokens?)"

UNITS = (
    (rf"{SECOND}\s*(?:/|per)\s*{STEP}", "seconds_per_step", 1.0),
    (rf"(?:ms|milliseconds?)\s*(?:/|per)\s*{STEP}", "seconds_per_step", 1e-3),
    (rf"{STEP}\s*(?:/|per)\s*{SECOND}", "steps_per_second", 1.0),
    (rf"{SAMPLE}\s*(?:/|per)\s*{SECOND}", "samples_per_second", 1.0),
    (rf"{TOKEN}\s*(?:/|per)\s*{SECOND}", "tokens_per_second", 1.0),
    (rf"{SECOND}\s*(?:/|per)\s*epoch", "seconds_per_epoch", 1.0),
    (r"(?:mins?|minutes?)\s*(?:/|per)\s*epoch", "seconds_per_epoch", 60.0),
    (r"(?:h|hrs?|hours?)\s*(?:/|per)\s*epoch", "seconds_per_epoch", 3600.0),
    (r"(?:h|hrs?|hours?)", "hours", 1.0),
)
"""Units as they are written, what they measure, and how many of the kit's own unit one of them is."""

WORDS = (
    (
        "epoch time",
        {"s": 1.0, "sec": 1.0, "min": 60.0, "mins": 60.0, "minutes": 60.0, "h": 3600.0},
        "seconds_per_epoch",
    ),
    ("step time", {"s": 1.0, "ms": 1e-3}, "seconds_per_step"),
    ("batch time", {"s": 1.0, "ms": 1e-3}, "seconds_per_step"),
)
"""Words that need a unit in brackets behind them: `epoch time (min)`."""

LABELS = {"", "label", "run", "test", "name", "config", "configuration", "experiment", "variant", "setup", "arm"}
"""Columns that name the row."""

AMOUNT = r"[\d,_]*\.?\d+(?:[eE][-+]?\d+)?[kKM]?"
CELL = re.compile(rf"^\s*([~≈]?[-+]?{AMOUNT}(?:\s*(?:[-–±]|\+/-)\s*{AMOUNT})?)\s*(.*?)\s*$")


BARE = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0, "hr": 3600.0, "hours": 3600.0}
"""Units of time in a cell whose column says what is timed."""

OUT_OF_MEMORY = ("oom", "out of memory")

NOTHING = ("", "-", "–", "—", "n/a", "na", "none", "nan", *OUT_OF_MEMORY)
"""Cells without a figure in a column of figures."""


class Unreadable(ValueError):
    """What can't be read, with its line and column, and what to do."""

    def __init__(self, source: str, line: int, column: int, message: str):
        super().__init__(f"{source}:{line}:{column}: {message}")


def text_of(path: Path) -> str:
    """The text of a file; Unreadable if it can't be read, or is not UTF-8."""
    try:
        content = path.read_bytes()
        return content.decode("utf-8-sig")
    except OSError as error:
        raise Unreadable(str(path), 1, 1, f"can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise Unreadable(
            str(path), line, column, f"byte 0x{content[error.start]:02x} is no UTF-8; save the file as UTF-8"
        ) from None


@dataclass(frozen=True)
class Column:
    """What a column holds: a quantity with the number of the kit's units in one of its own, or something else."""

    kind: str
    """'label', 'figure', 'setting', 'ignored', or 'open' where only the cells can tell."""
    name: str = ""
    scale: float = 1.0


def column(header: str, settings: set[str]) -> Column:
    """By the words and the unit of its header; `settings` are the names that the ecosystem knows."""
    text = plain(header).lower()
    name = text.replace(" ", "_")
    if text in LABELS:
        return Column("label")
    if name in TITLES or name in BESIDE:
        return Column("figure", name)
    if name in settings:
        return Column("setting", name)
    unit = _unit(_bracketed(text) or text)
    if unit:
        return Column("figure", *unit)
    for words, units, quantity in WORDS:
        if text.startswith(words) and _bracketed(text) in units:
            return Column("figure", quantity, units[_bracketed(text)])
    first = re.split(r"[\s_(]+", text)[0]
    return Column("open", next((q for q in (name, first, *text.split()[-1:]) if q in QUESTIONS), ""))


def figure(cell: str, held: Column) -> tuple[str, str] | None:
    """Quantity and number of a cell, in the kit's units; None for an empty one or words, ValueError for a question."""
    text = plain(cell)
    found = CELL.match(text)
    if not found or not text:
        if held.kind == "figure" and text.lower() not in NOTHING:
            raise ValueError(f"expected a number, found '{text}'")
        return None
    number, tail = found.groups()
    unit = _unit(tail.lower()) if tail else None
    if held.kind == "figure":
        return held.name, _scaled(number, _scale(held, tail, unit))
    if unit:
        return unit[0], _scaled(number, unit[1])
    if held.name:
        raise ValueError(f"{QUESTIONS[held.name]} {SAY}")
    return None


def _scale(held: Column, tail: str, unit: tuple[str, float] | None) -> float:
    """The kit's units in one of the cell's: the column's, unless the cell says another of the same kind."""
    if not tail:
        return held.scale
    if unit and unit[0] == held.name:
        return unit[1]
    bare = BARE.get(tail.lower().rstrip("."))
    if bare and held.name.startswith("seconds"):
        return bare
    if bare and held.name == "hours":
        return bare / 3600
    raise ValueError(f"the column holds {TITLES.get(held.name, held.name)}, and the cell says '{tail}'")


def plain(text: str) -> str:
    """Without the marks of Markdown and whatever decorates it."""
    return re.sub(r"[*`✅❌⚠️⚡🏆]|</?\w+>", "", text).strip()


def _unit(text: str) -> tuple[str, float] | None:
    return next(((name, scale) for unit, name, scale in UNITS if re.fullmatch(unit, text.strip())), None)


def _bracketed(text: str) -> str:
    found = re.search(r"[(\[]([^)\]]+)[)\]]\s*$", text)
    return found[1].strip() if found else ""


def _scaled(number: str, scale: float) -> str:
    """The number in the kit's unit, with as many digits as it had."""
    if scale == 1.0:
        return number
    found = parse(number)
    return " - ".join(format(Decimal(repr(end * scale)), "f") for end in (found.low, found.high))
