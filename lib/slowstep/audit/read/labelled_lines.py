"""Runs that a text tells in a line each, as people write them in a chat: `baseline: 1.84 s/it, bs 8, 4.3 samples/s`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slowstep.audit.read.cells import Cell
from slowstep.audit.read.runs_in_columns import is_no_run
from slowstep.audit.read.spoken_lines import SPEEDS, WITH_UNIT
from slowstep.audit.read.tables import rows_of
from slowstep.audit.read.unit_grammar import ratio

SPEAKER = r"(?:\s|>|[-*•]\s|\[[^\]\n]{1,30}\]|\(?\d\d?:\d\d(?::\d\d)?\)?(?: ?[AP]M)?|<[^>\n]{1,40}>)*+"
"""What stands before the words of a line: the marks of a list or a quotation, a time, and who says it."""

LABELLED = re.compile(
    rf"{SPEAKER}[*_`]*(?P<label>[^\W\d_][^:=|\n]{{0,60}}?)\s*(?::\s|=\s|→| [-–—] |\s{{2,}}|\t)(?P<rest>.*\d.*)"
)
COUNTS = re.compile(r"(?:global[_ ])?(?:step|it|iter|iteration|epoch|ep|batch|update|rank|worker|gpu|node)\b", re.I)
"""Words of a label that counts the lines of one run."""

BETWEEN = re.compile(r"\s*[,;|](?:\s*[,;|])*\s*|\s{2,}")
"""What parts the words of a line."""

FEWEST, MOST = 2, 50
"""How many such lines a text has."""

LONGEST = 1_000
"""The most characters of a line that are looked at."""


def labelled_rows(text: str, source: str, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a row for each line of a text that names a run and says its speeds; none if other lines say some, too.

    The lines say speeds of the same kinds, and their labels differ in words: a log counts its lines, and says parts.
    """
    lines = [(at, line, speeds) for at, line in enumerate(text.split("\n"), 1) if (speeds := _speeds(line))]
    found = [LABELLED.fullmatch(line.rstrip()) for _, line, _ in lines]
    labels = [match["label"].strip(" *_`") for match in found if match]
    kinds = {frozenset(speeds) for *_, speeds in lines}
    words = {re.sub(r"\d+", "", label.lower()) for label in labels}
    if not FEWEST <= len(lines) == len(words) <= MOST or len(kinds) > 1:
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
    each = [(unit.quantity, match) for match in WITH_UNIT.finditer(line[:LONGEST]) if (unit := ratio(match[2]))]
    speeds = {quantity: match for quantity, match in each if SPEEDS.fullmatch(quantity)}
    return speeds if len(each) == len({quantity for quantity, _ in each}) else {}
