"""Figures as they were reported: a number stands for all values that round to its digits.

2.13 is anything from 2.125 to 2.135. Arithmetic keeps both ends. So two figures contradict each other only if no
numbers that round to them agree: rounding is no contradiction.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

SPOKEN = {"k": 1e3, "m": 1e6, "b": 1e9}
"""The factors of letters, as in 600K and 1.8M. The digits before the letter say how far the number was rounded."""

SPACE = "[ \u00a0\u202f]"
"""Spaces that may part thousands."""

DIGITS = rf"(?:[1-9]\d{{0,2}}(?:(?:,\d{{3}})+|(?:{SPACE}\d{{3}})+)|\d+)?(?:\.\d+)?(?:[eE][-+]?\d{{1,3}})?"
NUMBER = re.compile(rf"([~≈]?)\s*([-+]?)({DIGITS})\s*([kKmMbB]?)\s*[x×%]?")
SPREAD = re.compile(r"(.+?)\s*(?:±|\+/-)\s*(.+)")
RANGE = re.compile(r"(.*?\d[kKmMbB]?)\s*(?:-|–|to)\s*([~≈]?\d.*)")
OF_SEVERAL = re.compile(r"±|\+/-|\bn ?= ?(?!1\b)\d|\b(?!1 )\d{1,4} (?:runs|seeds|repeats|trials)\b", re.IGNORECASE)
"""What stands beside a number that is the middle of several: a spread, or how many they are."""

COMMA = re.compile(r"[~≈]?[-+]?\d+,\d+(?![\d,.])")
"""Numbers with a comma that could be a decimal point: 0,281 and 1,5 always, 1,281 unless it separates thousands."""

OF_MONEY = ("cost", "price_per_hour", "price_per_device_hour", "cost_per_million_tokens")
CURRENCY = re.compile(r"^(?:(?:us)?[$€£]|usd\b|eur\b)\s*", re.IGNORECASE)
"""Figures that may have a currency, and how it stands before them."""

ABOUT = 0.1
"""The share by which a figure with a tilde may be off."""

LARGE = 1e4
"""The number from which on people round to zeros: 110,000 for 112,500."""

LARGEST = 1e100
"""The limit of figures: none of a training run exceeds it, and none but 0 is below its inverse."""


@dataclass(frozen=True)
class Figure:
    """All values from `low` to `high`. The one that was `written` is shown, or their middle if none was.

    A figure that is known from one side only has its other end at infinity, or at 0.
    """

    low: float
    high: float
    written: float | None = None

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"the lower end {self.low} is above the upper end {self.high}")

    @property
    def middle(self) -> float:
        """Return the value that is shown."""
        return (self.low + self.high) / 2 if self.written is None else self.written

    @property
    def bounded(self) -> bool:
        """Return whether the figure is above 0 and below infinity: ratios of other figures say little."""
        return self.low > 0 and self.high < math.inf

    def __mul__(self, other: Figure | float) -> Figure:
        o = _figure(other)
        ends = [_product(a, b) for a in (self.low, self.high) for b in (o.low, o.high)]
        return Figure(min(ends), max(ends), _product(self.middle, o.middle))

    __rmul__ = __mul__

    def __truediv__(self, other: Figure | float) -> Figure:
        """Return the quotient. It has an infinite end if `other` may be 0, and both ends if 0 is divided by 0."""
        o = _figure(other)
        if max(self.low, o.low) <= 0 <= min(self.high, o.high):
            return Figure(-math.inf, math.inf, math.inf)
        inside = o.low < 0 < o.high
        low = -math.inf if inside or o.high == 0 else 1 / o.high
        high = math.inf if inside or o.low == 0 else 1 / o.low
        return self * Figure(low, high, 1 / o.middle if o.middle else math.inf)

    def __rtruediv__(self, other: float) -> Figure:
        return exact(other) / self

    def __add__(self, other: Figure | float) -> Figure:
        o = _figure(other)
        return Figure(self.low + o.low, self.high + o.high, self.middle + o.middle)

    __radd__ = __add__

    def __sub__(self, other: Figure | float) -> Figure:
        o = _figure(other)
        return Figure(self.low - o.high, self.high - o.low, self.middle - o.middle)

    def meets(self, other: Figure) -> bool:
        """Return whether one number could be both figures; not if two rounded figures only touch at their ends."""
        if 0 in (self.high - self.low, other.high - other.low):
            return self.low <= other.high and other.low <= self.high
        return self.low < other.high and other.low < self.high

    def gap(self, other: Figure) -> float:
        """Return the least share by which two positive figures differ; 0 where they meet."""
        if self.meets(other):
            return 0.0
        apart = (other.low, self.high) if self.high <= other.low else (self.low, other.high)
        return apart[0] / apart[1] - 1 if apart[1] > 0 else math.inf

    def __str__(self) -> str:
        return shown(self.middle)


def says_spread(text: object) -> bool:
    """Return whether a reported number is the middle of several, by the spread or the number of them beside it."""
    return bool(OF_SEVERAL.search(str(text)))


def roughly(figure: Figure) -> Figure:
    """Return the figure, wider if the zeros at its end may be rounding: 110,000 may be from 105,000 to 115,000.

    Numbers below 10,000 are taken as they are, and at least two digits of any number are.
    """
    digits, zeros = Decimal(str(figure.middle)).normalize().as_tuple()[1:]
    if not figure.bounded or figure.middle < LARGE or zeros <= 0:
        return figure
    spread = float(Decimal(5).scaleb(min(zeros, len(digits) + zeros - 2) - 1))
    return Figure(min(figure.low, figure.middle - spread), max(figure.high, figure.middle + spread), figure.middle)


def shown(value: float) -> str:
    """Return a number as a text with four digits, or with all digits before the point."""
    return f"{value:,.0f}" if 9999.5 <= abs(value) < 1e15 else f"{value:.4g}"


def exact(value: float) -> Figure:
    """Return a figure that was counted or set, and not rounded."""
    return Figure(float(value), float(value))


def hull(figures: Iterable[Figure]) -> Figure:
    """Return the figure that reaches from the smallest to the largest of several; their mean is shown."""
    each = list(figures)
    return Figure(min(f.low for f in each), max(f.high for f in each), statistics.fmean(f.middle for f in each))


def figure(value: object, counted: bool = False, rounded: bool = True) -> Figure:
    """Return a reported number, text or list of repeated measurements as a figure; ValueError if it is none.

    A whole number of something `counted` is exact. Unless it is `rounded`, so is any number.
    """
    if isinstance(value, list):
        if not value:
            raise ValueError("expected a number, found an empty list")
        return hull(parse(v, counted, rounded) for v in value)
    return parse(value, counted, rounded)


def parse(text: object, counted: bool = False, rounded: bool = True) -> Figure:
    """Return a reported number as a figure; ValueError with what was found if it is none.

    Examples: `2.13`, `"2.10"`, `"34,221"`, `"600K"`, `"~1.8"`, `"20-24"`, `"2.1 ± 0.05"`, `"47%"`, `"1.88x"`. A number
    that YAML has read has lost its last zeros, and counts as less exact than it was written. A whole number of
    something `counted` is exact, and so is 0.
    """
    if isinstance(text, bool) or text is None or isinstance(text, list | dict):
        raise ValueError(f"expected a number, found {_short(text)}")
    said = (repr(text) if isinstance(text, int | float) else str(text)).strip()
    if len(said) > 60:
        raise ValueError(f"expected a number, found {_short(said)}")
    if COMMA.fullmatch(said) and not NUMBER.fullmatch(said):
        raise ValueError(comma(said))
    spread, ends = SPREAD.fullmatch(said), RANGE.fullmatch(said)
    if spread:
        middle, by = (_single(said, False, rounded) for said in spread.groups())
        if said.endswith("%") and "%" not in spread.group(1):  # a share of the figure
            by = by * (abs(middle.middle) / 100)
        return Figure(middle.low - abs(by.middle), middle.high + abs(by.middle), middle.middle)
    if NUMBER.fullmatch(said) or not ends:
        return _single(said, counted, rounded)
    first, last = ends.groups()
    letter = last[-1:] if last[-1:].lower() in SPOKEN and not first[-1:].isalpha() else ""
    return hull(_single(end, counted, rounded) for end in (first + letter, last))


def comma(said: str) -> str:
    """Return the question about a number whose comma could be a decimal point."""
    return f"found {said!r}; is the comma a decimal point? Write {said.replace(',', '.')!r} then"


def _single(said: str, counted: bool, rounded: bool) -> Figure:
    """Return one number as a figure; ValueError if it is none."""
    found = NUMBER.fullmatch(said)
    if not found or not any(c.isdigit() for c in found[3]):
        raise ValueError(f"expected a number, found {_short(said)}")
    tilde, sign, digits, letter = found.groups()
    number = Decimal(sign + re.sub(rf",|{SPACE}", "", digits))
    times = SPOKEN[letter.lower()] if letter else 1.0
    value = float(number) * times
    if not math.isfinite(value) or abs(value) > LARGEST or 0 < abs(value) < 1 / LARGEST:
        raise ValueError(f"expected a number that a run could have, found {digits!r}")
    places = number.as_tuple().exponent
    if not rounded or (not tilde and places >= 0 and (value == 0 or (counted and not letter))):
        return exact(value)
    spread = float(Decimal(5).scaleb(places - 1)) * times
    spread = max(spread, ABOUT * abs(value)) if tilde else spread
    return Figure(value - spread, value + spread, value)


def _product(a: float, b: float) -> float:
    """Return the product, where 0 times infinity is 0."""
    return a * b if a and b else 0.0


def _figure(value: Figure | float) -> Figure:
    return value if isinstance(value, Figure) else exact(value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
