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

ROUNDED = re.compile(r"(?:[~≈]\s*)?")
"""What stands before a number that is only about right."""

PER = re.compile(r"\s*(/|\bper\b)\s*")
"""What parts a time from the thing that takes it."""

HALF_CLOCK = re.compile(r"\d+:\d\d")


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

    None if it is none, or if its thing is not that of the `quantity`.
    """
    about, said = ROUNDED.match(text)[0], ROUNDED.sub("", text, count=1)
    time, per, thing = (part.strip() for part in PER.split(said, maxsplit=1)) if PER.search(said) else (said, "", "")
    if per and (unit := ratio(f"s/{thing}")) and unit.quantity != quantity:
        return None
    found = seconds_of(time) if not per or ratio(f"s/{thing}") else None
    if not found or not about:
        return found
    middle = Decimal(found[0].split(" ")[0])
    return f"{middle} ± {middle * Decimal(repr(ABOUT))}", found[1]


def _exponent(digits: str) -> int:
    return int(Decimal(digits).as_tuple().exponent)
