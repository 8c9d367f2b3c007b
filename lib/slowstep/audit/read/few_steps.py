"""What a header says in brackets of the steps or runs that its numbers are of: `step time (p99)`, `tokens/s (best)`."""

from __future__ import annotations

import re

MIDDLE = r"mean|avg\.?|average|med(?:ian)?|p50(?:\.0+)?|50(?:th|%)?(?: ?(?:percentile|pct|%ile))?"
"""Statistics that say what a middle step takes."""

PERCENTILE = r"p\d{1,3}(?:\.\d+)?|\d{1,2}(?:\.\d+)?(?:st|nd|rd|th|%)(?: ?(?:percentile|pct|%ile))?"
END = r"max(?:imum)?\.?|minimum|peak|best|worst|slowest|fastest|longest|shortest|highest|lowest|q[13]"
SPREAD = (
    r"std\.?|stdev|std\.? ?dev(?:iation)?\.?|std\.? ?err(?:or)?\.?|stderr|sd|se|sem|var(?:iance)?|cv|iqr|range|spread|"
    r"(?:\d\d ?% ?)?ci|σ|±|\+/-"
)
"""Statistics of few steps or runs, and of how far they are apart. `min` is none by itself, since it may be minutes."""

STATISTIC = re.compile(rf"(?P<before>.*\S)\s*[(\[]\s*(?P<of>{MIDDLE}|{PERCENTILE}|{END}|{SPREAD})\s*[)\]]\s*", re.I)

OF_MIDDLE = re.compile(MIDDLE, re.IGNORECASE)
OF_FEW = re.compile(rf"{PERCENTILE}|{END}|{SPREAD}", re.IGNORECASE)


def of_few(bracketed: str) -> bool:
    """Return whether the words in brackets of a header say that its numbers are not those of a middle step."""
    return bool(OF_FEW.fullmatch(bracketed)) and not OF_MIDDLE.fullmatch(bracketed)


def without_statistic(header: str) -> str:
    """Return a header without the statistic in brackets at its end: a `length (max)` is a length."""
    found = STATISTIC.fullmatch(header)
    return found["before"] if found else header
