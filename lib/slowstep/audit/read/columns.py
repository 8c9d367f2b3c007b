"""The quantity that a column or a cell holds, by the unit in it; never by a guess."""

from __future__ import annotations

import functools
import html
import re
from dataclasses import dataclass, replace
from decimal import Decimal

from slowstep.audit.figures import CURRENCY, OF_MONEY, SPACE, parse
from slowstep.audit.read.header_names import (
    ALIASES,
    BATCHES,
    IN_A_UNIT,
    LENGTHS,
    NAMES_OF_SETTINGS,
    OF_MIDDLE,
    change_called,
    of_few,
)
from slowstep.audit.read.other_work import OF_EVALUATION, OF_LOADING
from slowstep.audit.read.unit_grammar import DEVICES, THINGS, TIMES, Unit, duration, ratio, scaled
from slowstep.audit.relations import COUNTS, TITLES
from slowstep.audit.run import BESIDE, QUESTIONS, SAY, SHARES, STATED, TIMED
from slowstep.judgement.devices import family_of, peak_of

WHOLE_JOB = (
    *("total time", "time to train", "total training time", "training time", "train time"),
    *("wall time", "wall clock", "wall-clock", "runtime"),
)
"""The first words of a header if the whole job is timed. The unit is behind them in brackets, or in each cell."""

TIMED_WORDS = {"time", "duration", "latency", "timing"}
"""Words for a time, which stand beside what is timed: `time per step`, `epoch time`."""

DESCRIBED = {"speed", "throughput", "rate", "pace", "performance", "train", "training", "measured", "steady"} | {
    *("avg", "avg.", "average", "mean", "median", "total", "global", "overall", "wall", "clock", "elapsed"),
    *("current", "curr", "running", "in"),
}
"""Words of a header that change nothing about its unit."""

OF_A_RATE = {*DESCRIBED, *THINGS}
"""Words before `rate` that leave it a speed."""

ONE_TIME = {"record", "item", "example", "ex"}
"""Things that are samples in a ratio, and something else beside `time` alone: the time of a record is the best one."""

BEHIND = re.compile(r" (?:total|overall|global|train|training)$")
"""Words behind a unit that change nothing about it: `img/s total`."""

EACH_STEP = ("data", "forward", "backward", "optimizer")
"""Phases that come once a step, so that a column of seconds can only mean seconds a step. A save's column may not."""

PHASE_WORDS = {"pass", "wait", "waiting", "stall", "fetch", "fetching", "and", "augmentation", "/", "per", "step"} | {
    *DESCRIBED,
    *TIMED_WORDS,
}
"""Words behind a phase's name that leave it a phase: `forward pass`, `data wait time`."""

OPTIMIZER_STEP = re.compile(r"optimi[sz]er[ _]steps?\b", re.IGNORECASE)
"""A header of what is a step here. Beside columns of other phases it is the phase of the optimizer."""

PART_OF_ALL = r"(?:node|host|machine|server|worker|replica|process|proc|socket|core|instance|pod)s?"
SHARE = re.compile(
    r"\bper[ _-](?P<per>(?!(?:run|trial|seed|experiment)s?\b)[a-z]+|\d)|"
    rf"(?:^/ ?|\beach |\bof one |/|^)(?P<part>{PART_OF_ALL})\b"
)
"""Words in brackets behind a unit that say the work of a share of all devices: `tokens/s (per node)`."""

SET_UP = re.compile(r"\d[^,;]*(?:\bper\b|/)|:\s*\d|^(?:single|one|a)\b")
"""Words in brackets that say how all rows were trained: `img/s (batch 64 per GPU)`, `(nodes: 2)`, `(single node)`."""

WITHOUT_PADDING = re.compile(
    r"^(?:non[ -]?pad(?:ded|ding)?|useful|real|unpadded)[ _](?=tok)|"
    r"\s*[(\[](?:without|w/o|excl(?:\.|uding)?|no|non)[ -]?pad(?:ding|ded)?(?: tokens)?[)\]]$"
)
"""Words of a header that say that its tokens count no padding."""

OF_TEXT = "text"
"""What such a column holds as its `unit`."""

MONEY = dict.fromkeys(("$", "€", "£", "us$", "usd", "eur"), 1.0)
MEMORY = {"gib": 1.0, "gb": 1.0, "mib": 2.0**-10, "mb": 2.0**-10}
PERCENT = {"%": 1.0, "percent": 1.0}
OTHERS = {
    "utilisation": PERCENT,
    "mfu": PERCENT,
    "hfu": PERCENT,
    "cost": MONEY,
    "price_per_hour": {unit + per: 1.0 for unit in MONEY for per in ("", "/h", "/hr", "/hour")},
    "price_per_device_hour": MONEY,
    "memory_allocated_gib": MEMORY,
    "memory_reserved_gib": MEMORY,
    "memory_used_gib": MEMORY,
}
"""Units that a header or a cell may give to a named figure, each with its size in the kit's own unit."""

RUN_NAMES = {"run name", "run_name"}
"""Trainer's own name of a run, which names the row where no other column does."""

NO_SETTINGS = {"seed", "data_seed", "data seed", "output_dir", "output dir"}
"""Training arguments that make no training slower or faster: rows that differ in them alone are repeats."""

LABELS = {"", "label", "run", "test", "name", "config", "configuration", "experiment", "variant", "setup", "arm"}
"""Columns that name the row."""

AMOUNT = rf"(?:\d{{1,3}}(?:{SPACE}\d{{3}})+(?!\d)(?:\.\d+)?|[\d,_]*\.?\d+)(?:[eE][-+]?\d+)?[kKMB]?"
CELL = re.compile(
    rf"^\s*((?:[~≈] ?)?[-+]?{AMOUNT}(?:\s*(?:±|\+/-)\s*{AMOUNT}\s?%|\s*(?:[-–±]|\+/-)\s*{AMOUNT})?)\s*((?:.*\S)?)\s*$"
)

THOUSANDS_BY_POINTS = re.compile(r"\d{1,3}(?:\.\d{3})+,\d+")
"""A number whose thousands are parted by points, and whose point is a comma."""

NOTE = re.compile(r"(?<=[\w)])\s*(?:[†‡§¶¹²³⁴⁵⁶⁷⁸⁹]+|\[\w{1,2}\]|\^\w)$")
"""The mark of a footnote behind a number."""

RELATIVE = re.compile(
    r"(?<=[\w%)])\s*[(\[]\s*(?:"
    r"(?:[↑↓~≈]\s?)?[-+−]?[\d.,]{1,12}\s?(?:%|[x×])(?:\s(?:faster|slower|more|less|higher|lower|speed-?up))?"
    r"|base|baseline|ref|reference|n ?= ?\d{1,4}|\d{1,4} (?:runs|seeds|repeats))\s*[)\]]$",
    re.IGNORECASE,
)
"""What stands in brackets behind a number and is no part of it: how it differs from that of another row (`+12%`), or
how often it was measured (`n=3`)."""

INVERSE = {"steps_per_second": "seconds_per_step", "samples_per_second": "seconds_per_sample"}
INVERSE |= {"tokens_per_second": "seconds_per_token"}
INVERSE |= {below: above for above, below in INVERSE.items()}
"""Quantities of which a cell may hold the one where its header says the other, if it has a unit of its own."""


OUT_OF_MEMORY = re.compile(r"\boom\b|out of memory", re.IGNORECASE)
ONLY_OUT_OF_MEMORY = re.compile(r"(cuda |gpu )?(oom|out of memory)[.!]?", re.IGNORECASE)

ENTITY = re.compile(r"&(?:[a-zA-Z]{2,8}|#\d{1,5});")

NOTHING = ("", "-", "–", "—", "n/a", "na", "none", "nan")
"""Cells without a figure in a column of figures."""

NOT_YET = ("tbd", "tba", "todo", "?", "pending", "running", "wip")
"""Cells of figures that are still to be measured."""

LONGEST = 100
"""The most characters of a cell that holds a time with its spread."""

SPREAD_OF_A_TIME = re.compile(
    rf"(?P<middle>{AMOUNT})\s*(?P<unit>[a-zµμ]+)\s*(?:±|\+/-)\s*(?P<by>{AMOUNT})\s*(?P<its>[a-zµμ]+)(?P<rest>.*)",
    re.IGNORECASE,
)
"""A time as `%timeit` prints it, with a unit behind each number: `1.2 s ± 35 ms per loop`."""

BETTER = re.compile(r"\s*(?:(?:[(\[]\s*)?[↑↓⬆⬇⇧⇩]+\s*(?:[)\]])?|[†‡§¶¹²³⁴⁵⁶⁷⁸⁹]+)$")
"""An arrow at the end of a header, which says what is better, or the mark of a footnote."""

CIRCUMSTANCE = re.compile(
    r"(?:[bt]?f(?:p|loat)?(?:16|32)|fp64|amp|mixed(?: precision)?|dense)|n ?= ?\d+|"
    r"mean ?(?:±|\+/-) ?(?:std|sd|se)|[$€£] ?\d[\d.]* ?(?:/|per) ?[a-z][a-z /-]*",
    re.IGNORECASE,
)
"""What a header may say in brackets of how its numbers came about, beside the name of a device: `TFLOPS/GPU (bf16)`."""


@dataclass(frozen=True)
class Column:
    """The meaning of a column."""

    kind: str
    """One of 'label', 'figure', 'timed' (cells must give the unit), 'stated' (a ratio to another row, where a cell may
    also say `baseline`), 'phase', 'setting', 'factor' (of the catalogue and no setting by itself), 'ignored' and 'open'
    (only cells can tell)."""
    name: str = ""
    """The quantity, phase, setting or factor."""
    scale: float = 1.0
    """The size of the column's unit in the kit's own unit."""
    inverted: bool = False
    """True if its numbers are the inverse of the kit's: epochs an hour for the seconds of one."""
    count: float = 1.0
    """The number of things that a time is of, as the header says it: cells may have another unit of time."""
    unit: str = ""
    """The unit in the header, where it tells more than the scale: a percentage, or OF_TEXT for useful tokens."""
    percentage: str = ""
    """What a percentage without a sign is in a column of speed-ups: 'whole' (100 % is as fast as the base), 'more'
    (0 % is), or empty where its first row does not tell. In a column of times, whether it says by how much they
    'changed', or how much of them is 'saved'."""


MEASURED = ("figure", "timed", "phase")
"""Kinds of columns whose cells are numbers, or nothing."""


def column(header: str, settings: set[str]) -> Column:
    """Return the meaning of a column by the words and the unit of its header; `settings` are the known settings."""
    text = BETTER.sub("", re.sub(r"\s+", " ", plain(header).lower()))
    called = _called(text, settings)
    if called:
        return called
    if WITHOUT_PADDING.search(text):
        of_tokens = column(WITHOUT_PADDING.sub("", text), settings)
        return replace(of_tokens, unit=OF_TEXT) if of_tokens.name.startswith("tokens_per_") else of_tokens
    bracketed = _bracketed(text)
    rest = text[: text.rindex(bracketed)].rstrip(" ([") if bracketed else text
    telling = _without_circumstances(bracketed)
    if telling != bracketed:
        return column(f"{rest} ({telling})" if telling else rest, settings)
    of_evaluation = any(map(OF_EVALUATION.search, (rest, bracketed)))
    if of_evaluation or OF_LOADING.fullmatch(bracketed) or of_few(bracketed):  # no speed of training
        return Column("open")
    if OF_MIDDLE.fullmatch(bracketed):
        return column(rest, settings)
    words = re.split(r"[\s_]+", rest.replace("/", " / "))
    if OPTIMIZER_STEP.match(text) and bracketed in TIMES:
        words = words[1:]
    return _with_unit(text, bracketed, rest, words) or _timed_thing(bracketed, rest, words) or _unclear(text, words)


def _without_circumstances(bracketed: str) -> str:
    """Return what stands in the brackets of a header without how its numbers came about: `ms` of `ms, A100, n=5`."""
    parts = [part.strip() for part in re.split(r"[,;]", bracketed)]
    units = [part for part in parts if part in TIMES or ratio(part)]
    if len(parts) > 1 and len(units) == 1 and not any(SHARE.search(part) for part in parts if part not in units):
        others = [part for part in parts if part not in units and (of_few(part) or OF_EVALUATION.search(part))]
        return ", ".join([*units, *others])
    telling = [part for part in parts if not (CIRCUMSTANCE.fullmatch(part) or _names_device(part))]
    return bracketed if len(telling) == len(parts) else ", ".join(telling)


def _names_device(words: str) -> bool:
    """Return whether words name a known device, and not the size of a memory alone."""
    model = re.sub(r"\b\d+ ?gi?b\b", "", words.lower())
    return any(map(str.isdigit, model)) and bool(peak_of(words) or family_of(words))


@functools.lru_cache(maxsize=4096)
def device_in(header: str) -> str:
    """Return the device that a header names in brackets, as one beside what it measures; empty for none."""
    parts = re.split(r"[,;]", _bracketed(plain(header)))
    return next((part.strip() for part in parts if _names_device(part.strip())), "")


def _called(text: str, settings: set[str]) -> Column | None:
    """Return the meaning of a header that is the name of something, whatever its unit is; None for others."""
    if text in LABELS | RUN_NAMES:
        return Column("label")
    if text in NO_SETTINGS:
        return Column("ignored")
    named = _named(text) or _named(text.removesuffix("(%)").removesuffix("%").rstrip())
    if change := change_called(text):
        in_header = "%" if text.endswith(("%", "%)")) else ""
        if change == "faster":
            return Column("stated", "speed_up", unit=in_header or "%" * text.startswith("%"), percentage="more")
        if change != "speed_up":
            return Column("stated", "time_left", unit=in_header, percentage=change)
        return Column("open") if in_header else Column("stated", "speed_up")
    if named in STATED:
        percent = named == "speed_up" and text.endswith(("%", "%)"))  # of more, or of the whole
        return Column("open") if percent else Column("stated", named)
    if _named(text):
        return Column("figure", _named(text), unit="batch" if text.endswith(BATCHES) else "")
    if re.sub(r"[_ ]+|-", " ", re.sub(r"\s*\((?:tokens|tok)\)$", "", text)) in LENGTHS:
        return Column("setting", "max_length")
    name = setting_called(text) or text.replace(" ", "_")
    return Column("setting", name) if name in settings else None


def _with_unit(text: str, bracketed: str, rest: str, words: list[str]) -> Column | None:
    """Return the meaning of a header that gives the unit of a speed or of a figure; None for others."""
    unit = _unit_of(text, bracketed, rest) or _timed(bracketed, words)
    if unit:
        return Column("figure", unit.quantity, unit.scale, unit.inverted, count=unit.count)
    name = _named(rest) or IN_A_UNIT.get(rest.replace("_", " "), "")
    units = OTHERS.get(name, {})
    return Column("figure", name, units[bracketed], unit=bracketed) if bracketed in units else None


def _timed_thing(bracketed: str, rest: str, words: list[str]) -> Column | None:
    """Return the meaning of a header that names what is timed: the whole job, a step or a phase; None for others."""
    if any(rest.startswith(start) for start in WHOLE_JOB):
        return Column("figure", "seconds", TIMES[bracketed]) if bracketed in TIMES else Column("timed", "seconds")
    unit = _timed("s", words) if TIMED_WORDS & {*words} else None
    if unit:
        return Column("timed", unit.quantity, unit.scale)
    is_phase = words[0] in EACH_STEP and bracketed in TIMES and PHASE_WORDS.issuperset(words[1:])
    return Column("phase", words[0], TIMES[bracketed]) if is_phase else None


def _unclear(text: str, words: list[str]) -> Column:
    """Return the meaning of a header that only cells can tell, with the question that its words raise."""
    if ratio(text.split(" ")[-1]):  # a unit behind words that change its meaning: `p99 s/it`, `A100 s/it`
        return Column("open")
    name = setting_called(text) or text.replace(" ", "_")
    if words[-1:] == ["rate"] and not OF_A_RATE.issuperset(words):  # of learning, of dropout
        return Column("open")
    return Column("open", next((q for q in (name, words[0], *words[-1:]) if q in QUESTIONS), ""))


def setting_called(header: str) -> str:
    """Return the setting that a header calls in other words than transformers; empty if it calls none so."""
    return NAMES_OF_SETTINGS.get(re.sub(r"[_ ]+|-", " ", header), "")


def _named(text: str) -> str:
    """Return the figure that a header names; empty if it names none."""
    name = ALIASES.get(text.replace("_", " "), text.replace(" ", "_"))
    return name if name in TITLES or name in BESIDE else ""


def _unit_of(text: str, bracketed: str, rest: str) -> Unit | None:
    """Return the unit that is in brackets, is the whole header, or is its end behind words without meaning for it.

    Brackets behind the unit may say whose work it counts, `tokens/s (per node)`. None unless it is that of a device.
    """
    share = None if ratio(bracketed) or SET_UP.search(bracketed) else SHARE.search(bracketed)
    of = (share["per"] or share["part"]) if share else bracketed.removeprefix("/")
    if of in DEVICES:
        rest, bracketed = f"{rest}/{of}", ""
    elif share and of not in TIMES and of not in THINGS:
        return None
    found, words = ratio(bracketed) or ratio(text), re.split(r"[ _]+", rest)
    if found:
        return found
    while words and not found:
        found = ratio(" ".join(words))
        words = words[1:] if words[0].rstrip(":,") in DESCRIBED else []
    found = found or ratio(BEHIND.sub("", rest))
    return scaled(found, bracketed) if found else None


def _timed(unit: str, words: list[str]) -> Unit | None:
    """Return the unit of a timed thing: `step (ms)`, `time / 1k iterations (min)`. The time stands in brackets or last.

    A single thing is timed, or a number of them. The time of `steps` alone could be that of all steps: None.
    """
    if not unit and words[-1] in TIMES:
        *words, unit = words
    said = " ".join(w for w in words if w not in DESCRIBED | TIMED_WORDS)
    thing = re.sub(r"^(?:time)?\s*(?:/|per\b)\s*", "", said.replace("time/", "/")).strip()
    if thing in ONE_TIME and "/" not in said and "per" not in said.split():
        return None
    several = re.fullmatch(r"(?:it|s|[a-z]+[^s])s", thing) and THINGS.get(thing) and not said.startswith(("/", "per"))
    found = ratio(f"{unit}/{thing}") if unit in TIMES and thing and not several else None
    return found if found and found.quantity.startswith("seconds_per") else None


@functools.lru_cache(maxsize=4096)
def figure(cell: str, held: Column) -> tuple[str, str] | None:
    """Return quantity and number of a cell, in the kit's units; None for an empty cell or words.

    ValueError if the cell is no number, or if it could mean several things.
    """
    text = plain(cell)
    if held.name in OF_MONEY:
        text = CURRENCY.sub("", text)
    text = RELATIVE.sub("", NOTE.sub("", text))
    text = re.sub(r"\(\s*((?:±|\+/-)[^()]*)\)$", r"\1", text)
    text = _with_one_unit(text)
    if THOUSANDS_BY_POINTS.fullmatch(text):
        raise ValueError(f"found '{text}'; write '{text.replace('.', '').replace(',', '.')}'")
    timed = held.kind == "phase" or (held.kind in MEASURED and held.name.startswith(("seconds", "minutes", "hours")))
    lasting, found = duration(text, held.name) if timed else None, CELL.match(text)
    if not lasting and (not found or not text):
        if held.kind in MEASURED and text.lower() not in (*NOTHING, *NOT_YET) and not OUT_OF_MEMORY.search(text):
            raise ValueError(f"expected a number, found '{text}'")
        return None
    number, tail = lasting or found.groups()
    if number.endswith("B") and not held.name.startswith("tokens"):  # bytes, or what nobody has so many of
        number, tail = number[:-1], f"B{tail}"
    if held.unit == "batch" and number[-1:] in "kKMB":
        raise ValueError(f"is it samples or tokens a step (samples_per_step, tokens_per_step)? {SAY}")
    unit = ratio(tail) if tail else None
    if number.endswith("%") and held.name in (*SHARES, "utilisation"):  # the sign is added again below
        number, tail = number.rstrip("% "), "%"
    if unit and held.kind in MEASURED and unit.quantity == INVERSE.get(held.name):
        return in_own_unit(unit.quantity, number, unit.scale, unit.inverted)
    if held.kind in MEASURED:
        percent = "%" if held.name in SHARES and "%" in (tail, held.unit) else ""
        inverted = held.inverted and not (tail and unit)
        name, said = in_own_unit(held.name, number, _scale(held, tail, unit), inverted or bool(unit and unit.inverted))
        return name, said + percent
    if unit:
        return in_own_unit(unit.quantity, number, unit.scale, unit.inverted)
    if held.name:
        raise ValueError(f"{QUESTIONS[held.name]} {SAY}")
    return None


def _with_one_unit(text: str) -> str:
    """Return a time whose spread has a unit of its own with one unit behind both; any other text as it is."""
    found = SPREAD_OF_A_TIME.fullmatch(text) if len(text) < LONGEST and re.search(r"±|\+/-", text) else None
    if not found or not {found["unit"].lower(), found["its"].lower()} <= TIMES.keys():
        return text
    by = float(found["by"].replace(",", "")) * TIMES[found["its"].lower()] / TIMES[found["unit"].lower()]
    rest = re.sub(r"^\s*per loop.*", "", found["rest"])
    return f"{found['middle']} ± {Decimal(repr(round(by, 9))):f} {found['unit']}{rest}"


def is_number(cell: str) -> bool:
    """Return whether a cell holds a number, with a unit or without."""
    text = CURRENCY.sub("", plain(cell))
    found = CELL.match(text)
    return bool(text and found) and not found[2].startswith(("-", "_"))  # `8-bit` is a word


def _scale(held: Column, tail: str, unit: Unit | None) -> float:
    """Return the size of the cell's unit in the kit's own: the column's unit, unless the cell has another of its kind.

    ValueError if the cell's unit does not fit the column, or if neither has one.
    """
    if not tail:
        if held.kind == "timed":
            raise ValueError("in what unit? Write it in the header, as in 'step time (ms)', or in the cell")
        return held.scale
    if unit and unit.quantity == held.name:
        return unit.scale
    said = tail.lower().rstrip(".")
    if said in TIMES and (held.name.startswith("seconds") or held.kind == "phase"):
        return TIMES[said] * (held.scale if held.kind == "timed" else 1 / held.count)
    if said in TIMES and held.name.startswith(("hours", "minutes")):
        return TIMES[said] / (3600 if held.name == "hours" else 60)
    if said in OTHERS.get(held.name, {}):
        return OTHERS[held.name][said]
    raise ValueError(f"the column holds {(TITLES | BESIDE).get(held.name, held.name)}, and the cell says '{tail}'")


def in_own_unit(name: str, number: str, scale: float, inverted: bool = False) -> tuple[str, str]:
    """Return a quantity and its number in the kit's unit, with as many digits as it had; ValueError for 0 or less."""
    found = parse(number, counted=name in COUNTS)
    if (inverted or name.startswith(TIMED)) and found.low <= 0 and (inverted or found.high <= 0):
        raise ValueError(f"expected more than 0, found {number}")
    if scale == 1.0 and not inverted:
        return name, number
    if inverted:  # the written value stays in the middle, with room for the farther end
        middle, farthest = scale / found.middle, scale / found.low
        return name, " ± ".join(format(Decimal(repr(value)), "f") for value in (middle, farthest - middle))
    ends = (found.low * scale, found.high * scale)
    return name, " - ".join(format(Decimal(repr(end)), "f") for end in ends)


@functools.lru_cache(maxsize=4096)  # a large table repeats its headers and cells
def plain(text: str) -> str:
    """Return a text without the marks of Markdown and without decoration, and with signs for entities (`&nbsp;`)."""
    text = re.sub(
        r"(?<![\w)])\*+|\*+(?![\w(])|[`✅❌⚠️⚡🏆]|</?\w+>|(?<!\S):[a-z_]{3,30}:(?!\S)", "", text
    )  # `8*4` is a product
    return ENTITY.sub(lambda match: html.unescape(match[0]), text).strip()


def _bracketed(text: str) -> str:
    """Return the text in brackets at the end, or a percent sign there; empty if there is neither."""
    found = re.search(r"[(\[]([^)\]]+)[)\]]\s*$|(?<=\w)\s*(%)$", text)
    return (found[1] or found[2]).strip() if found else ""
