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
    r"(?:(?:cumulative|cum\.?|total|overall|train(?:ing)?|throughput|relative|rel\.?|measured|e2e|end-to-end) )*"
    r"speed[- ]?ups?"
    r"(?: factor)?(?: ?[(\[]?(?:vs\.?|over|to|from|relative to) [^()]{1,30}[)\]]?| ?[(\[](?:cum(?:ulative|\.)?|total|"
    r"overall)[)\]])?|"
    r"(?:relative|rel\.?|normali[sz]ed) (?:throughput|speed|performance)|"
    r"(?:train(?:ing)? )?(?:throughput|speed|perf(?:ormance)?) ?[(\[]?(?:vs\.?|over|relative to|compared (?:to|with))"
    r" [^()]{1,30}[)\]]?"
)
"""How many times as fast a row is as one reference. What says another one in each row is none."""


FASTER = re.compile(r"(?:% )?faster(?: by)?(?: ?[(\[]?(?:vs\.?|than|over) [^()]{1,30}[)\]]?)?")
"""Headers that say by how much a row is faster, which a percentage says without a sign."""


OF_THE_ONE = re.compile(
    r"(?:% )?(?:(?:δ|delta|change|diff(?:erence)?)\.? )?(?:vs\.?|relative to|compared (?:to|with)|over) [^()]{1,30}"
    r"(?: ?[(\[]?%[)\]]?)?"
)
"""How a row differs from another one that is named, which is of the one thing that a table measures."""


LESS = re.compile(
    r"(?:% )?(?:reductions?|saved|savings?|decrease)(?: ?(?:vs\.?|over) [^()]{1,30})?(?: ?[(\[]?%[)\]]?)?"
)
"""Headers that say how much less a row has of the one thing that a table measures."""


def changes_the_one(header: str) -> bool:
    """Return whether a header in lower case says how rows differ from one of them, and not in what."""
    return bool(OF_THE_ONE.fullmatch(header) or LESS.fullmatch(header)) and not TO_ANOTHER.search(header)


def change_called(header: str) -> str:
    """Return what a header in lower case says of a row beside another, or nothing.

    That is 'speed_up', 'faster', or of a time 'changed' or 'saved'.
    """
    said = re.sub(r"\s*(?:[(\[](?:in )?(?:%|x|×)[)\]]|%)$", "", header.replace("_", " "))
    if FASTER.fullmatch(said):
        return "faster"
    if SPEED_UP.fullmatch(said):
        return "" if TO_ANOTHER.search(said) else "speed_up"
    return "changed" if CHANGED.fullmatch(said) else "saved" if SAVED.fullmatch(said) else ""
