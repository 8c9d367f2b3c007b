"""Durations of several units, `1:30:00` and `2h 13m`, also with the thing that takes them: `3m12s/epoch`."""

from __future__ import annotations

import re
from decimal import Decimal

from slowstep.audit.figures import ABOUT
from slowstep.audit.read.unit_grammar import ratio

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
