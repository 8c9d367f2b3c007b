"""Sizes that the prose of a Markdown file claims beside its tables: `4.6x faster`, `38 % less time`."""

from __future__ import annotations

import re
from collections.abc import Iterator

NUMBER = r"(?P<{}>\d{{1,4}}(?:\.\d{{1,3}})?)\s?(?P<{}>%|x|×|percent|times)"
FASTER = r"faster|quicker|speed-?ups?|improvements?|gains?|higher (?:training )?throughput|more throughput"
SLOWER = r"slower|slow-?downs?|lower (?:training )?throughput|less throughput"
LESS_TIME = r"less (?:\w+ )?time|shorter|(?:time )?saved|reduction"
MORE_TIME = r"more (?:\w+ )?time|longer"

CLAIMED = re.compile(
    rf"{NUMBER.format('size', 'unit')}[-\s]+(?:(?!than\b)\w+\s+){{0,2}}"
    rf"(?P<word>{FASTER}|{SLOWER}|{LESS_TIME}|{MORE_TIME}|less|more)\b|"
    rf"(?P<before>{FASTER}|{SLOWER}|reduction)\s+(?:of|by)\s+(?:about |around |~|≈)?"
    rf"{NUMBER.format('size_of', 'unit_of')}",
    re.IGNORECASE,
)
"""What a line of prose has that claims a size."""

MOST = 20
"""The most claims that are read."""

SIGNS = re.compile(r"[*_`]{1,3}")
"""The marks of Markdown around words."""


def claimed_sizes(text: str) -> list[str]:
    """Return what a Markdown text claims outside its tables and its code, each as it is written there."""
    return list({claim.lower().replace("×", "x"): claim for claim in _claimed(text)}.values())[:MOST]


def _claimed(text: str) -> Iterator[str]:
    in_code = False
    for line in text.split("\n"):
        in_code ^= line.lstrip().startswith("```")
        if "|" not in line and not in_code:
            yield from (found[0] for found in CLAIMED.finditer(SIGNS.sub("", line)))
