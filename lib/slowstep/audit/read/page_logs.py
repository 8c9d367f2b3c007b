"""Logs that stand in a page as blocks of their own: in the fences of a Markdown text, or as outputs of a notebook."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from slowstep.audit.read.logs import read_log
from slowstep.audit.read.source_text import Unreadable

FENCE_LINE = re.compile(r"\s{0,3}(?P<fence>`{3,}|~{3,})")
"""The first and the last line of a block within a Markdown text."""

MARKS = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>|[#*`>:]+|(?<!\w)_+|_+(?!\w)")
"""The marks around the words of a line that names the block below it."""

LONGEST = 60
"""The most characters of such a line. A longer one is a sentence, and no name."""

MOST = 50
"""The most blocks of a page that are read."""

IN_STEPS = {"seconds_per_step": "steps_per_second"}
"""What a bar says in place of the other once a step takes more than a second."""


@dataclass(frozen=True)
class Block:
    """A block of a page: the words above it that name it, and its text."""

    name: str
    text: str


def fenced_blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a Markdown text. A fence that is not closed goes to the end."""
    lines = text.split("\n")
    found: list[Block] = []
    at = 0
    while at < len(lines):
        fence = FENCE_LINE.match(lines[at])
        if fence:
            inside = list(takewhile(lambda line, end=fence["fence"]: line.strip() != end, lines[at + 1 :]))
            found.append(Block(_name_above(lines[:at]), "\n".join(inside)))
            at += len(inside) + 1
        at += 1
    return found


def logs_in(blocks: Sequence[Block], path: Path, columns: Mapping[str, str]) -> list[list[dict[str, Any]]]:
    """Return the rows of each block that is a log, called by the words above it, or else as the page."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.with_suffix(".log").name  # a log is read in pieces, from a file
        for block in blocks[:MOST]:
            copy.write_text(block.text, encoding="utf-8", errors="replace")
            with contextlib.suppress(Unreadable):
                rows = read_log(copy, columns)
                found.append([row | {"label": block.name or path.stem, "place": str(path)} for row in rows])
    return found


def are_of_several_runs(logs: Sequence[Sequence[dict[str, Any]]]) -> bool:
    """Return whether the logs of a page are each of another run: all say the same figures.

    A block of bars beside one of Trainer's last words may be of one run.
    """
    said = {frozenset(IN_STEPS.get(name, name) for name in row["figures"]) for rows in logs for row in rows}
    return len(logs) > 1 and len(said) == 1


def _name_above(lines: Sequence[str]) -> str:
    """Return the words of the last line above a block; empty for a line that is none of its name."""
    last = next((line for line in reversed(lines) if line.strip()), "")
    name = MARKS.sub("", last).strip()
    return name if len(name) <= LONGEST and not FENCE_LINE.match(last) and not name.endswith((".", "?", "!")) else ""
