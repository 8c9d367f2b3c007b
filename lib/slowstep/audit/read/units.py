"""Which quantity a column or a cell holds, by the unit that stands in it; never by a guess."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from slowstep.audit.figures import parse
from slowstep.audit.relations import COUNTS, TITLES
from slowstep.audit.run import BESIDE, QUESTIONS, SAY, TIMED

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
)
"""Units as they are written, what they measure, and how many of the kit's own unit one of them is."""

TIMES = (
    {"ms": 1e-3, "milliseconds": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0}
    | {"min": 60.0, "mins": 60.0, "minutes": 60.0}
    | {"h": 3600.0, "hr": 3600.0, "hrs": 3600.0, "hours": 3600.0}
)
"""Units of time, where a header says what is timed."""

TIMED_BY = (
    (("epoch time", "time per epoch", "time/epoch"), "seconds_per_epoch"),
    (("step time", "time per step", "time/step", "iteration time", "time per iteration"), "seconds_per_step"),
    (("batch time", "time per batch", "time/batch"), "seconds_per_step"),
    (("total time", "training time", "train time", "wall time", "runtime"), "seconds"),
)
"""How a header says what is timed; its unit stands behind it in brackets, or in each cell: `epoch time (min)`."""

EACH_STEP = ("data", "forward", "backward", "optimizer")
"""Phases that come once a step, so that a column of seconds or milliseconds can mean nothing else; a save's may."""

MONEY = dict.fromkeys(("$", "€", "£", "usd", "eur"), 1.0)
MEMORY = {"gib": 1.0, "gb": 1.0, "mib": 2.0**-10, "mb": 2.0**-10}
OTHERS = {
    "utilisation": {"%": 1.0},
    "cost": MONEY,
    "price_per_hour": {unit + per: 1.0 for unit in MONEY for per in ("", "/h", "/hr", "/hour")},
    "memory_allocated_gib": MEMORY,
    "memory_reserved_gib": MEMORY,
    "memory_used_gib": MEMORY,
}
"""Units of cells under a header that names the figure, and how many of the kit's own one of them is."""

CURRENCY = re.compile(r"^(?:[$€£]|usd\b|eur\b)\s*", re.IGNORECASE)

LABELS = {"", "label", "run", "test", "name", "config", "configuration", "experiment", "variant", "setup", "arm"}
"""Columns that name the row."""

AMOUNT = r"[\d,_]*\.?\d+(?:[eE][-+]?\d+)?[kKM]?"
CELL = re.compile(rf"^\s*([~≈]?[-+]?{AMOUNT}(?:\s*(?:[-–±]|\+/-)\s*{AMOUNT})?)\s*(.*?)\s*$")


OUT_OF_MEMORY = re.compile(r"\boom\b|out of memory", re.IGNORECASE)

NOTHING = ("", "-", "–", "—", "n/a", "na", "none", "nan")
"""Cells without a figure in a column of figures."""


class Unreadable(ValueError):
    """What can't be read, with its line and column, and what to do."""

    def __init__(self, source: str, line: int, column: int, message: str):
        super().__init__(f"{source}:{line}:{column}: {message}")


def text_of(path: Path, errors: str = "strict") -> str:
    """The text of a file, with line ends as here; Unreadable if it can't be read, or is no UTF-8 (nor UTF-16 that says
    so, as PowerShell writes)."""
    try:
        content = path.read_bytes()
        encoding = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
        return content.decode(encoding, errors).replace("\r\n", "\n")
    except OSError as error:
        raise Unreadable(str(path), 1, 1, f"can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise Unreadable(
            str(path),
            line,
            column,
            f"byte 0x{content[error.start]:02x} is no {encoding[:6].upper()}; save the file as UTF-8",
        ) from None


@dataclass(frozen=True)
class Column:
    """What a column holds: a quantity with the number of the kit's units in one of its own, or something else."""

    kind: str
    """'label', 'figure', 'timed' (cells must say in what unit), 'phase', 'setting', 'ignored', 'open' (only cells can
    tell)."""
    name: str = ""
    scale: float = 1.0


MEASURED = ("figure", "timed", "phase")
"""Kinds of columns whose cells are numbers, or nothing."""


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
    timed = next((quantity for words, quantity in TIMED_BY if text.startswith(words)), None)
    if timed:
        scale = TIMES.get(_bracketed(text))
        return Column("figure", timed, scale) if scale else Column("timed", timed)
    first = re.split(r"[\s_(]+", text)[0]
    if first in EACH_STEP and _bracketed(text) in TIMES:
        return Column("phase", first, TIMES[_bracketed(text)])
    return Column("open", next((q for q in (name, first, *text.split()[-1:]) if q in QUESTIONS), ""))


def figure(cell: str, held: Column) -> tuple[str, str] | None:
    """Quantity and number of a cell, in the kit's units; None for an empty one or words, ValueError for a question."""
    text = plain(cell)
    if held.name in ("cost", "price_per_hour"):
        text = CURRENCY.sub("", text)
    found = CELL.match(text)
    if not found or not text:
        if held.kind in MEASURED and text.lower() not in NOTHING and not OUT_OF_MEMORY.search(text):
            raise ValueError(f"expected a number, found '{text}'")
        return None
    number, tail = found.groups()
    unit = _unit(tail.lower()) if tail else None
    if held.kind in MEASURED:
        return _measured(held.name, number, _scale(held, tail, unit))
    if unit:
        return _measured(unit[0], number, unit[1])
    if held.name:
        raise ValueError(f"{QUESTIONS[held.name]} {SAY}")
    return None


def is_number(cell: str) -> bool:
    """Whether there is one in it, in some unit or none."""
    return bool(plain(cell)) and bool(CELL.match(plain(cell)))


def _scale(held: Column, tail: str, unit: tuple[str, float] | None) -> float:
    """The kit's units in one of the cell's: the column's, unless the cell says another of the same kind."""
    if not tail:
        if held.kind == "timed":
            raise ValueError("in what unit? Write it in the header, as in 'step time (ms)', or in the cell")
        return held.scale
    if unit and unit[0] == held.name:
        return unit[1]
    said = tail.lower().rstrip(".")
    if said in TIMES and (held.name.startswith("seconds") or held.kind == "phase"):
        return TIMES[said]
    if said in TIMES and held.name == "hours":
        return TIMES[said] / 3600
    if said in OTHERS.get(held.name, {}):
        return OTHERS[held.name][said]
    raise ValueError(f"the column holds {(TITLES | BESIDE).get(held.name, held.name)}, and the cell says '{tail}'")


def _measured(name: str, number: str, scale: float) -> tuple[str, str]:
    """With as many digits as it had, in the kit's unit."""
    found = parse(number, counted=name in COUNTS)
    if name.startswith(TIMED) and found.high <= 0:
        raise ValueError(f"expected more than 0, found {number}")
    if scale == 1.0:
        return name, number
    return name, " - ".join(format(Decimal(repr(end * scale)), "f") for end in (found.low, found.high))


def plain(text: str) -> str:
    """Without the marks of Markdown and whatever decorates it."""
    return re.sub(r"[*`✅❌⚠️⚡🏆]|</?\w+>", "", text).strip()


def _unit(text: str) -> tuple[str, float] | None:
    return next(((name, scale) for unit, name, scale in UNITS if re.fullmatch(unit, text.strip())), None)


def _bracketed(text: str) -> str:
    found = re.search(r"[(\[]([^)\]]+)[)\]]\s*$", text)
    return found[1].strip() if found else ""
