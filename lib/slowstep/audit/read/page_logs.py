"""Logs in a page as blocks of their own (fences, outputs of a notebook), and texts that tell a run in each line."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from slowstep.audit.read.cells import Cell
from slowstep.audit.read.logs import read_log
from slowstep.audit.read.runs_in_columns import is_no_run
from slowstep.audit.read.source_text import Unreadable
from slowstep.audit.read.spoken_lines import SPEEDS, WITH_UNIT
from slowstep.audit.read.tables import rows_of
from slowstep.audit.read.unit_grammar import ratio

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


SPEAKER = r"(?:\s|>|[-*•]\s|\[[^\]\n]{1,30}\]|\(?\d\d?:\d\d(?::\d\d)?\)?(?: ?[AP]M)?|<[^>\n]{1,40}>)*+"
"""What stands before the words of a line: the marks of a list or a quotation, a time, and who says it."""

LABELLED = re.compile(
    rf"{SPEAKER}[*_`]*(?P<label>[^\W\d_][^:=|\n]{{0,60}}?)\s*(?::\s|=\s|→| [-–—] |\s{{2,}}|\t)(?P<rest>.*\d.*)"
)
COUNTS = re.compile(r"(?:global[_ ])?(?:step|it|iter|iteration|epoch|ep|batch|update|rank|worker|gpu|node)\b", re.I)
"""Words of a label that counts the lines of one run."""

BETWEEN = re.compile(r"\s*[,;|](?:\s*[,;|])*\s*|\s{2,}")
"""What parts the words of a line."""

FEWEST, MOST_LINES = 2, 50
"""How many such lines a text has."""

LONGEST_LINE = 1_000
"""The most characters of a line that are looked at."""


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


def labelled_rows(text: str, source: str, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a row for each line of a text that names a run and says its speeds; none if other lines say some, too.

    The lines say speeds of the same kinds, and their labels differ in words: a log counts its lines, and says parts.
    """
    lines = [(at, line, speeds) for at, line in enumerate(text.split("\n"), 1) if (speeds := _speeds(line))]
    found = [LABELLED.fullmatch(line.rstrip()) for _, line, _ in lines]
    labels = [match["label"].strip(" *_`") for match in found if match]
    kinds = {frozenset(speeds) for *_, speeds in lines}
    words = {re.sub(r"\d+", "", label.lower()) for label in labels}
    if not FEWEST <= len(lines) == len(words) <= MOST_LINES or len(kinds) > 1:
        return []
    if any(COUNTS.match(label) or is_no_run(label) for label in labels):
        return []
    first = lines[0][0]
    headers = ["run", *(match[2] for match in lines[0][2].values()), "words"]
    table: list[list[Cell]] = [[(name, first, i) for i, name in enumerate(headers, 1)]]
    for label, match, (at, _, speeds) in zip(labels, found, lines, strict=True):
        beside = BETWEEN.sub(", ", WITH_UNIT.sub("", match["rest"] if match else "")).strip(" ,.")
        cells = [label, *(f"{speeds[kind][1]} {speeds[kind][2]}" for kind in lines[0][2]), beside]
        table.append([(text, at, i) for i, text in enumerate(cells, 1)])
    return rows_of([table], source, columns)


def _speeds(line: str) -> dict[str, re.Match[str]]:
    """Return the speeds that a line says with their units, by what they measure; none if it says one twice."""
    each = [(unit.quantity, match) for match in WITH_UNIT.finditer(line[:LONGEST_LINE]) if (unit := ratio(match[2]))]
    speeds = {quantity: match for quantity, match in each if SPEEDS.fullmatch(quantity)}
    return speeds if len(each) == len({quantity for quantity, _ in each}) else {}
