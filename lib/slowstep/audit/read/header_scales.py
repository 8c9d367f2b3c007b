"""What stands in brackets behind the unit of a header and multiplies it: `tokens/s (×10³)`, `tokens/day (B)`."""

from __future__ import annotations

import re
from dataclasses import replace

from slowstep.audit.read.unit_grammar import Unit

SIZES = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
SCALE = re.compile(
    r"(?:in |[x×] ?)?(?:(?P<thousand>k|thousands?|1e3|10\^3|10³|1,?000)|"
    r"(?P<million>m|millions?|mio|1e6|10\^6|10⁶|1,?000,?000)|"
    r"(?P<billion>b|bn|billions?|1e9|10\^9|10⁹|1,?000,?000,?000))"
)
POWER = re.compile(r"^(?:in )?[x×*] ?\d|\d\^\d|\b10 ?[⁰¹²³⁴⁵⁶⁷⁸⁹]|\b1e\d")
"""A scale whose size is not known."""


def scaled(unit: Unit, bracketed: str) -> Unit | None:
    """Return a unit with the scale in brackets behind it; None for a scale whose size is not known."""
    many = SCALE.fullmatch(bracketed)
    if many:
        return replace(unit, scale=unit.scale * next(size for name, size in SIZES.items() if many[name]))
    return None if POWER.search(bracketed) else unit
