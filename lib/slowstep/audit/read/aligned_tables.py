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

DRAWN = re.compile(r"[-=~]{2,}")
"""What a ruler shows of one column."""

MOST = 2_000
"""The most lines of a text that are looked at."""

TITLES = 2
"""The lines above a header, without an empty one between them, that may be its title."""


def aligned_as_markdown(text: str) -> str:
    """Return the tables of a text as Markdown; empty if it holds none."""
    blocks: list[list[str]] = [[]]
    for line in text.replace("\r\n", "\n").split("\n")[:MOST]:
        if not line.strip():
            blocks.append([])
        else:
            blocks[-1].append(line)
    return "\n".join(_below_ruler(block) or _table(_parted(block)) for block in blocks)


def _parted(block: Sequence[str]) -> list[list[str]]:
    """Return the fields of each line but those that are drawn."""
    return [_fields(line) for line in block if not RULER.issuperset(line)]


def _below_ruler(block: Sequence[str]) -> str:
    """Return the table of a block whose ruler shows where its columns begin: cells of several lines are joined then.

    A line with words in its first column alone goes on with the one above it. Empty for another block.
    """
    rulers = [i for i, line in enumerate(block) if RULER.issuperset(line) and len(DRAWN.findall(line)) > 1]
    if not rulers or "|" in block[rulers[0]]:
        return ""
    begins = [found.start() for found in DRAWN.finditer(block[rulers[0]])]
    ends = [*begins[1:], MOST]
    each = [[line[a:b].strip() for a, b in zip(begins, ends, strict=True)] for line in block]
    first = rulers[1] if rulers[0] == 0 and len(rulers) > 1 else rulers[0]
    above = [each[i] for i in range(first) if i not in rulers]
    header = [" ".join(filter(None, words)) for words in zip(*above, strict=True)]
    rows: list[list[str]] = []
    for i in range(first + 1, len(block)):
        if i in rulers:
            continue
        if rows and each[i][0] and not any(each[i][1:]):
            rows[-1][0] += f" {each[i][0]}"
        else:
            rows.append(each[i])
    fits = bool(above) and len(above) <= TITLES + 1 and bool(rows) and not any(map(is_number, header))
    return table([header, *rows]) + "\n" if fits and all(any(map(is_number, row)) for row in rows) else ""


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
