"""Numbers as people read them."""

from __future__ import annotations

import math

MOST, LEAST = 101.0, 0.001
"""The ratios beyond which a change is not told any closer: +10,000 % and -99.9 %."""


def percentage(share: float) -> str:
    """Return a share, 0 to 1, with two or three digits: "46 %", "4.6 %"."""
    return f"{digits(share)} %"


def digits(share: float) -> str:
    """Return a share, 0 to 1, as per cent without the sign."""
    return f"{100 * share:.1f}" if abs(share) < 0.0995 else f"{100 * share:.0f}"


def in_minutes(seconds: float) -> str:
    """Return seconds as minutes, the unit in which what measuring may take is given: "5.7 minutes"; few as they are."""
    return f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.2g} s"


def signed(ratio: float) -> str:
    """Return a ratio as a signed change in per cent, without the sign: 1.052 -> +5.2, 1.523 -> +52, 0.004 -> -99.6."""
    if math.isnan(ratio):
        return "unknown"
    if not LEAST <= ratio <= MOST:
        return "over +10,000" if ratio > MOST else "below -99.9"
    change = round(100 * (ratio - 1), 1) + 0.0  # never -0.0
    if change < -99:
        return f"{change:+.1f}"
    return f"{change:+.1f}" if abs(change) < 9.95 else f"{change:+,.0f}"


def percent(ratio: float) -> str:
    """Return a ratio as a signed percentage with two or three digits: 1.052 -> +5.2 %, 1.523 -> +52 %."""
    return f"{signed(ratio)} %"


def asked(gain: float) -> str:
    """Return a gain that was asked for, 0.05 for 5 %, with no more digits than it was given: "+5 %"."""
    return f"{100 * gain:+,.4g} %"


def unsigned(change: str) -> str:
    """Return a change in per cent for words that say its direction: "+20 % [+3, +41]" becomes "20 % [3, 41]"."""
    return change.replace("+", "")


def spanned(ratio: float, low: float, high: float) -> str:
    """Return a ratio and the ends of its interval as signed percentages: "+5.2 % [+1.0, +9.4]"."""
    return f"{percent(ratio)} [{signed(low)}, {signed(high)}]"


def told_apart(ratio: float, limit: float) -> str:
    """Return a ratio as a percentage with as many decimals as show it beside a limit; "" if `percent` shows that."""
    if ratio == limit or signed(ratio) != signed(limit):
        return ""
    shown = ((f"{100 * (one - 1):+.{decimals}f} %" for one in (ratio, limit)) for decimals in range(2, 9))
    return next((own for own, other in shown if own != other), "")
