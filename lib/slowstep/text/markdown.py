"""Untrusted text in Markdown: whatever a name, a path, a reason or a log says, it is text and nothing else."""

from __future__ import annotations

import re

from slowstep.text.visible import visible

MARKS = re.compile(r"([\\`*{}\[\]<>#|&~$!]|(?<![^\W_])_|_(?![^\W_]))")
"""What can begin markup within a line: code, emphasis, links, images, HTML, entities, table cells, formulas. An
underscore within a word begins nothing (CommonMark 0.31, section 6.2)."""

AT_THE_START = re.compile(r"^([-+=]|\d+(?=[.)]))")
"""What is markup where a line begins: items of lists, rules and headings."""


ADDRESS = re.compile(r":(?=//)|(?<=www)\.|@")
"""What many viewers make a link of."""


def escape(text: object) -> str:
    """Return `text` on one line, for Markdown: nothing in it is markup, nothing in it is hidden."""
    line = escape_cell(text)
    return AT_THE_START.sub(lambda m: f"{m[1]}\\" if m[1].isdigit() else f"\\{m[1]}", line)


def escape_cell(text: object) -> str:
    """Return `text` for the cell of a table, in which no line begins."""
    line = MARKS.sub(r"\\\1", _one_line(text))
    return ADDRESS.sub(r"\\\g<0>", line)


def code(text: object) -> str:
    """Return `text` as code within a line; its fence is longer than any run of backticks in it."""
    line = _one_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " * (len(fence) > 1)
    return f"{fence}{space}{line}{space}{fence}"


def _one_line(text: object) -> str:
    """Visible, with single spaces: four of them would begin a block of code."""
    return " ".join(filter(None, visible(str(text).replace("\n", " ")).split(" ")))
