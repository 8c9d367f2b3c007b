"""Tables of a plain text whose columns stand below each other, or are parted by bars, as Markdown.

pandas, `tabulate` and profilers print them so, and so do the markups of reStructuredText and Jira.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from slowstep.audit.read.columns import is_number
from slowstep.text.markdown import table

RULER = frozenset("-=+_|~: \t")
"""The signs of a line that is drawn between the rows of a table, or around them."""

MOST = 2_000
"""The most lines of a text that are looked at."""

TITLES = 2
"""The lines above a header, without an empty one between them, that may be its title."""


def aligned_as_markdown(text: str) -> str:
    """Return the tables of a text as Markdown; empty if it holds none."""
    blocks: list[list[list[str]]] = [[]]
    for line in text.replace("\r\n", "\n").split("\n")[:MOST]:
        if not line.strip():
            blocks.append([])
        elif not RULER.issuperset(line):
            blocks[-1].append(_fields(line))
    return "\n".join(_table(block) for block in blocks)


def _fields(line: str) -> list[str]:
    """Return the fields of a line: between bars, or else between two spaces or a tab."""
    said = line.strip()
    return [cell.strip() for cell in re.split(r"\|+", said.strip("|"))] if "|" in said else re.split(r"\s{2,}|\t", said)


def _table(lines: Sequence[list[str]]) -> str:
    """Return the first table of some lines: a header of words, and the lines behind it with as many fields.

    Numbers that merely count the lines have no header.
    """
    for at, header in enumerate(lines[: min(TITLES + 1, len(lines) - 1)]):
        rows = lines[at + 1 :]
        counted = all(len(row) == len(header) + 1 and row[0] == str(i) for i, row in enumerate(rows))
        rows = [row[1:] for row in rows] if counted else rows
        fits = len(header) > 1 and not any(map(is_number, header)) and all(len(row) == len(header) for row in rows)
        if fits and all(any(map(is_number, row)) for row in rows):
            return table([header, *rows]) + "\n"
    return ""
