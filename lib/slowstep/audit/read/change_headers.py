"""Headers of columns that say how a row differs from another one: `Δ step time`, `time saved`, `cumulative speedup`."""

from __future__ import annotations

import re

TIME = r"(?:(?:step|epoch|iter(?:ation)?|train(?:ing)?|total|wall|run|batch)[ -]?)?(?:time|runtime|duration|latency)"
CHANGED = re.compile(
    rf"(?:Δ|δ|delta|change|diff(?:erence)?)\.?(?: in| of)?(?: the)? ?{TIME}|{TIME} (?:Δ|δ|delta|change|diff(?:erence)?)"
)
SAVED = re.compile(rf"(?:{TIME} (?:saved|savings?|reduction)|(?:saved|savings?|reduction)(?: in| of)? (?:the )?{TIME})")
"""The change of a time, and what is less of it."""

TO_ANOTHER = re.compile(r"\b(?:prev(?:ious)?|last|above|before|incremental|each|step)\b|\bΔ")
SPEED_UP = re.compile(
    r"(?:(?:cumulative|cum\.?|total|overall|train(?:ing)?|relative|rel\.?|measured|e2e|end-to-end) )*speed[- ]?ups?"
    r"(?: factor)?(?: ?[(\[]?(?:vs\.?|over|to|from|relative to) [^()]{1,30}[)\]]?)?|"
    r"(?:relative|rel\.?|normali[sz]ed) (?:throughput|speed|performance)"
)
"""How many times as fast a row is as one reference. What says another one in each row is none."""


def change_called(header: str) -> str:
    """Return what a header in lower case says of a row beside another: 'speed_up', 'changed', 'saved', or nothing.

    The last two are of a time.
    """
    said = re.sub(r"\s*(?:[(\[](?:in )?(?:%|x|×)[)\]]|%)$", "", header.replace("_", " "))
    if SPEED_UP.fullmatch(said):
        return "" if TO_ANOTHER.search(said) else "speed_up"
    return "changed" if CHANGED.fullmatch(said) else "saved" if SAVED.fullmatch(said) else ""
