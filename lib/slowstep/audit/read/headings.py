"""The headings of a Markdown text, which say what the tables below them are of."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slowstep.audit.read.cells import Cell
from slowstep.audit.read.other_work import OF_TRAINING

HEADING = re.compile(r"\s{0,3}#{1,6}\s+(?P<text>\S.*?)\s*#*\s*|\s{0,3}\*\*(?P<bold>[^*|]{1,100})\*\*:?\s*")
OF_INFERENCE = re.compile(
    r"(?<![a-z])(?:inference|serving|generation|decod(?:e|ing)|prefill|latency)(?![a-z])", re.IGNORECASE
)

LONGEST = 100
"""The most characters of a heading that is shown."""


def headings_of(text: str, tables: Sequence[Sequence[Sequence[Cell]]]) -> list[str]:
    """Return the heading that stands above each table of a text; empty where there is none."""
    lines = text.splitlines()
    return [_above(lines, table[0][0][1] - 1) for table in tables]


def is_of_inference(heading: str) -> bool:
    """Return whether a heading speaks of inference, and not of training."""
    return bool(OF_INFERENCE.search(heading)) and not OF_TRAINING.search(heading)


def _above(lines: Sequence[str], at: int) -> str:
    short = (line for line in reversed(lines[:at]) if len(line) < 2 * LONGEST)
    found = next((match for line in short if (match := HEADING.fullmatch(line))), None)
    return (found["text"] or found["bold"] or "")[:LONGEST] if found else ""
