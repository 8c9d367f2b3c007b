"""A grammar of units such as `min / 1k iterations` or `tokens/s/GPU`, and of durations such as `1:30:00` and `2h 13m`.

A unit is a thing or a time divided by a thing or a time. A number may stand before each, and one part may be a device:
`ms per step`, `tok/GPU/s`, `samples / min (per device)`, `sec_per_it`, `h/epoch`, `s/100 steps`. `it` is a step.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from decimal import Decimal

from slowstep.audit.figures import ABOUT

TIMES = (
    dict.fromkeys(("us", "µs", "μs", "microsecond", "microseconds"), 1e-6)
    | dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), 1e-3)
    | dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0)
    | dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0)
    | dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0)
    | dict.fromkeys(("d", "day", "days"), 86400.0)
)
"""Units of time, in seconds."""

THINGS = (
    dict.fromkeys(("it", "its", "iter", "iters", "iteration", "iterations", "step", "steps"), "step")
    | dict.fromkeys(("batch", "batches", "ba", "update", "updates"), "step")
    | dict.fromkeys(("sample", "samples", "example", "examples", "ex"), "sample")
    | dict.fromkeys(("seq", "seqs", "sequence", "sequences"), "sample")
    | dict.fromkeys(("image", "images", "img", "imgs", "im", "item", "items", "record", "records"), "sample")
    | dict.fromkeys(("tok", "toks", "token", "tokens", "tk", "tks"), "token")
    | dict.fromkeys(("epoch", "epochs", "ep"), "epoch")
)
"""Names of things that are counted."""

DEVICES = {"gpu", "gpus", "device", "devices", "card", "chip", "accelerator", "rank", "tpu", "npu"}

MANY = {"k": 1e3, "thousand": 1e3, "kilo": 1e3, "m": 1e6, "million": 1e6, "mio": 1e6, "b": 1e9, "billion": 1e9}
"""Numbers that stand before a thing as a letter or a word."""

ABBREVIATED = {"tps": "token/s", "tgs": "token/s/gpu", "ups": "update/s", "wps": "token/s", "wpb": "token/batch"}
"""Short names that mean only one unit. Training frameworks print TGS for tokens a second and GPU, and fairseq UPS, WPS
and WPB, whose words are tokens."""

QUANTITIES = {
    ("time", "step"): ("seconds_per_step", False),
    ("step", "time"): ("steps_per_second", False),
    ("time", "sample"): ("seconds_per_sample", False),
    ("sample", "time"): ("samples_per_second", False),
    ("token", "time"): ("tokens_per_second", False),
    ("time", "token"): ("seconds_per_token", False),
    ("time", "epoch"): ("seconds_per_epoch", False),
    ("epoch", "time"): ("seconds_per_epoch", True),
    ("sample", "step"): ("samples_per_step", False),
    ("token", "step"): ("tokens_per_step", False),
    ("token", "sample"): ("tokens_per_sample", False),
    ("step", "epoch"): ("steps_per_epoch", False),
    ("sample", "epoch"): ("samples_per_epoch", False),
    ("token", "epoch"): ("tokens_per_epoch", False),
}
"""The quantity that a ratio measures, and True if the kit's own unit is the inverse."""

PER_DEVICE = ("samples_per_second", "tokens_per_second")
"""Quantities that may be given for one device. A step is one step of all devices."""


SIZES = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
SCALE = re.compile(
    r"(?:in |[x×] ?)?(?:(?P<thousand>k|thousands?|1e3|10\^3|10³|1,?000)|"
    r"(?P<million>m|millions?|mio|1e6|10\^6|10⁶|1,?000,?000)|"
    r"(?P<billion>b|bn|billions?|1e9|10\^9|10⁹|1,?000,?000,?000))"
)
POWER = re.compile(r"^(?:in )?[x×*] ?\d|\d\^\d|\b10 ?[⁰¹²³⁴⁵⁶⁷⁸⁹]|\b1e\d")
"""A scale whose size is not known."""


CLOCK = re.compile(r"(?:(\d+)[ -]days?,? |(\d+)-)?(\d+):([0-5]\d):([0-5]\d)(\.\d+)?")
SPOKEN_TIME = re.compile(
    r"(?:(\d+) ?d(?:ays?)?,? ?)?(?:(\d+) ?h(?:rs?|ours?)?,? ?)?"
    r"(?:(\d+) ?m(?:in(?:ute)?s?)?,? ?)?(?:(\d+(?:\.\d+)?) ?s(?:ec(?:ond)?s?)?)?"
)
"""Durations: `1:30:00` and `2h 13m`."""

HALF_CLOCK = re.compile(r"\d+:\d\d")
"""A clock of two parts, `45:00`, whose unit nobody knows."""

PER = re.compile(r"/|\bper\b")
"""What parts a time from the thing that takes it."""

LONGEST = 60
"""The most characters of a cell that holds a duration."""


@dataclass(frozen=True)
class Unit:
    """A unit: the quantity that it measures, and its size in the kit's own unit; if `inverted`, in the inverse."""

    quantity: str
    scale: float = 1.0
    inverted: bool = False
    count: float = 1.0
    """The number of things that a time is of: 100 in `s / 100 steps`."""


@functools.lru_cache(maxsize=4096)  # a log says the same few units in each line
def ratio(text: str) -> Unit | None:
    """Return the unit that a text means; None if it means none."""
    parts = _parts(text)
    if parts is None:
        return None
    if len(parts) == 1:
        parts = ABBREVIATED.get(parts[0], "").split("/")
    each = [part for part in parts if part not in DEVICES]
    counted = [_counted(part) for part in each]
    if len(each) != 2 or None in counted or len(parts) - len(each) > 1 or parts[0] in DEVICES:
        return None
    (above, a), (below, b) = counted
    quantity, inverted = QUANTITIES.get((above, below), ("", False))
    if not quantity:
        return None
    if len(parts) > len(each):
        if quantity == "seconds_per_token":
            quantity, inverted = "tokens_per_second", True
        if quantity not in PER_DEVICE:
            return None
        quantity += "_per_device"
    scale = b / a if inverted else a / b
    return Unit(quantity, scale, inverted, b if above == "time" else 1.0)


def _parts(text: str) -> list[str] | None:
    """Return the parts between the strokes, in lower case. "per" is a stroke, also in brackets: `tok/s (per GPU)`."""
    said = re.sub(r"[\[\](){}]", " ", text.lower())
    said = re.sub(r"\bper\b|\ba\b(?= second\b)", "/", said.replace("_", " "))
    said = re.sub(r"\b(?:optimi[sz]er|global) (?=(?:step|update)s?\b)", "", said)
    said = re.sub(r"/\s*/", "/", said)
    said = re.sub(r"\s+", " ", said).strip(" .:")
    return [part.strip() for part in said.split("/")] if said and not said.startswith("/") else None


def _counted(part: str) -> tuple[str, float] | None:
    """Return the kind of a part and its number, for a time in seconds: `100 steps`, `1k it`, `ktok`, `ms`.

    None if it is no known thing or time.
    """
    found = re.fullmatch(r"([\d.,]*)\s*(?:(k|m|b|thousand|kilo|million|mio|billion)\s)?\s*([a-zµμ]+)", part)
    if not found:
        return None
    digits, letter, word = found.groups()
    number = 1.0
    if digits:
        plain = re.sub(r",(?=\d{3}(?:\D|$))", "", digits)
        if not re.fullmatch(r"\d+(?:\.\d+)?", plain):
            return None
        number = float(plain)
    number *= MANY[letter] if letter else 1.0
    if word in TIMES or word in THINGS:
        kind = "time" if word in TIMES else THINGS[word]
        return (kind, number * TIMES.get(word, 1.0)) if number > 0 else None
    if word[:1] in ("k", "m") and THINGS.get(word[1:]) in ("token", "sample"):
        return THINGS[word[1:]], number * MANY[word[0]]
    return None


def scaled(unit: Unit, bracketed: str) -> Unit | None:
    """Return a unit with the scale in brackets behind it; None for a scale whose size is not known."""
    many = SCALE.fullmatch(bracketed)
    if many:
        return replace(unit, scale=unit.scale * next(size for name, size in SIZES.items() if many[name]))
    return None if POWER.search(bracketed) else unit


def seconds_of(text: str) -> tuple[str, str] | None:
    """Return a duration of several units as seconds and their unit, rounded to its last unit; None if it is none.

    ValueError for `45:00`, which may be minutes or hours.
    """
    if HALF_CLOCK.fullmatch(text):
        raise ValueError(f"is {text} minutes and seconds, or hours and minutes? Write 0:{text} or {text}:00")
    clock, spoken = CLOCK.fullmatch(text), SPOKEN_TIME.fullmatch(text.lower())
    if clock:
        day, slurm_day, *parts, fraction = clock.groups()
        parts = [day or slurm_day, *parts[:2], parts[2] + (fraction or "")]
    elif spoken and sum(part is not None for part in spoken.groups()) > 1:
        parts = list(spoken.groups())
    else:
        return None
    units = [Decimal(size) for size in (86400, 3600, 60, 1)]
    seconds = sum((Decimal(part) * size for part, size in zip(parts, units, strict=True) if part), Decimal(0))
    last = max(i for i, part in enumerate(parts) if part)
    return f"{seconds} ± {units[last] * Decimal(10) ** _exponent(parts[last]) / 2}", "s"


def duration(text: str, quantity: str) -> tuple[str, str] | None:
    """Return a duration as `seconds_of` does, also one that is rounded (`~1:02:33`) or names its thing (`3m12s/epoch`).

    The unit holds the thing with its number, `s/100 steps`. None if it is no duration, or if its thing is not that of
    the `quantity`.
    """
    if len(text) > LONGEST:
        return None
    said = text.lstrip("~≈")
    time, *things = (part.strip() for part in PER.split(said, maxsplit=1))
    per = f"s/{things[0]}" if things else "s"
    unit = ratio(per) if things else None
    if things and not (unit and unit.quantity == quantity):
        return None
    found = seconds_of(time)
    if not found or said == text:
        return (found[0], per) if found else None
    middle, by = map(Decimal, found[0].split(" ± "))
    return f"{middle} ± {max(by, middle * Decimal(repr(ABOUT)))}", per


def _exponent(digits: str) -> int:
    return int(Decimal(digits).as_tuple().exponent)
