"""Tables in Markdown, and the escaping of untrusted text: names, paths and logs stay plain text, whatever they hold."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slowstep.text.visible import visible

FIGURES = r"(?<=[\w%] )\[[-+\d.,]+, [-+\d.,]+\](?=[\s.,;)]|$)"
"""An interval behind a figure, `5 % [3, 7]`. Its brackets begin no link, since a link's target, or the text of a
definition, would have to follow them at once."""

MARKS = re.compile(rf"({FIGURES})|[\\`*{{}}\[\]<>#|~$]|(?<!\w)_+|!(?=\[|$)|&(?=[\w#]|$)")
"""Intervals, which stay as they are, and else characters that can begin markup within a line: code, emphasis, links,
images, HTML, entities, table cells, formulas. Underscores that follow a letter, a digit or an underscore begin no
emphasis, and end none where none has begun (CommonMark 0.31, section 6.2)."""

LINE_START = re.compile(r"^([-+](?=[\s-]|$)|=|\d+(?=[.)](?:\s|$)))")
"""Characters that are markup at the start of a line: items of lists, rules and headings."""


ADDRESS = re.compile(r":(?=//)|(?<=www)\.|@")
"""Characters by which many viewers recognise an address and make it a link."""


def escape(text: object) -> str:
    """Return `text` on one line of Markdown. Nothing in it is markup, and nothing in it is hidden."""
    line = escape_cell(text)
    return LINE_START.sub(lambda m: f"{m[1]}\\" if m[1].isdigit() else f"\\{m[1]}", line)


def escape_cell(text: object) -> str:
    """Return `text` for the cell of a Markdown table. Markup of line starts needs no escape there."""
    line = MARKS.sub(lambda m: m[1] or "".join(f"\\{mark}" for mark in m[0]), _one_line(text))
    return ADDRESS.sub(r"\\\g<0>", line)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as a Markdown table, the header first. What stands in a cell is escaped already."""
    header, *body = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([header, "|---" * len(rows[0]) + "|", *body])


def code(text: object) -> str:
    """Return `text` as code within a line. Its fence is longer than any sequence of backticks in it."""
    line = _one_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " * (len(fence) > 1)
    return f"{fence}{space}{line}{space}{fence}"


def _one_line(text: object) -> str:
    """Return `text` on one line, visible and with single spaces: four spaces would begin a block of code."""
    return " ".join(filter(None, visible(str(text).replace("\n", " ")).split(" ")))
