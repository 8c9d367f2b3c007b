"""Progress bars of tqdm and the last words of Trainer, found in a log of any size.

A log whose bars are drawn over each other is a single line, however large it is. So the log is read in pieces that
overlap, and only the pace of each bar is kept.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from slowstep.audit.read.columns import Unreadable
from slowstep.audit.read.unit_grammar import THINGS

PIECE = 1 << 20
"""The number of characters that are read at once."""

OVERLAP = 1 << 13
"""The number of characters that are read again with the next piece: more than any bar, or Trainer's last words, has."""

STEP = r"(?:it|iter|iters|step|steps|batch|batches)"
SAMPLE = "(?:" + "|".join(sorted((name for name, thing in THINGS.items() if thing == "sample"), reverse=True)) + ")"
BAR = re.compile(
    r"(?<!\d)(?P<done>\d{1,12})/(?P<total>\d{1,12}) \[(?:\d+:)?\d+:\d+<[^,\]]{0,30},\s{0,9}(?P<pace>\d+(?:\.\d+)?)\s?"
    rf"(?P<unit>s/(?:{STEP}|{SAMPLE})|(?:{STEP}|{SAMPLE})/s)[,\]]"
)
"""A bar of tqdm: `Epoch 1/3:  6%|▌  | 120/2000 [04:15<1:06:41, 2.13s/it]`. Trainer's own bars have no name."""

NAME = re.compile(r"(?:[^:|\[\]{}]|\[[^:|\[\]{}<]{1,20}\])*\Z")
"""A bar's name, which may hold words in brackets (`Epoch 1/2 [train]`), behind an earlier bar or a line of the log."""

PERCENT = re.compile(r"\d+%$")

END = re.compile(r"\{[^{}]{0,4000}'train_runtime'[^{}]{0,4000}\}")
"""Trainer's last words: what it prints when training ends."""

WIDEST = 400
"""The most characters of a bar before its count."""

LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Pace:
    """A pace as a bar showed it."""

    text: str
    unit: str

    @property
    def seconds(self) -> float:
        """Return the seconds of what the bar counts."""
        return float(self.text) if self.unit.startswith("s/") else 1 / float(self.text)

    @property
    def counts(self) -> str:
        """Return what the bar counts: "step" or "sample"."""
        return THINGS[self.unit.removeprefix("s/").removesuffix("/s")]

    @property
    def quantity(self) -> str:
        """Return the quantity that the pace measures."""
        return f"seconds_per_{self.counts}" if self.unit.startswith("s/") else f"{self.counts}s_per_second"


@dataclass(slots=True)
class Stretch:
    """Bars of one name and total whose counts never fall, with their paces."""

    at: int
    """The place of the first bar in the log, in characters."""
    name: str
    total: int
    first: int
    last: int
    paces: list[Pace] = field(default_factory=list)

    @property
    def counts(self) -> str:
        """Return what the bar counts: "step" or "sample"."""
        return self.paces[0].counts


@dataclass(frozen=True, slots=True)
class Said:
    """The text that Trainer printed at a training's end, with its place in the log (in characters), line and column."""

    at: int
    text: str
    line: int
    column: int


@dataclass(frozen=True)
class Scanned:
    """Everything in a log that is about speed."""

    stretches: list[Stretch]
    ends: list[Said]
    lines: int


def scan(path: Path) -> Scanned:
    """Return the bars and the last words in a log; Unreadable if it can't be read."""
    stretches: list[Stretch] = []
    ends: list[Said] = []
    known: dict[tuple[str, str], Pace] = {}
    # the buffer's place in the log, the lines before it, and the place where its line began
    buffer, began, lines, line_began = "", 0, 0, 0
    bars_from = ends_from = 0  # all before these places in the log was found
    for piece, last in _pieces(path):
        buffer += piece
        whole = len(buffer) if last else max(0, len(buffer) - OVERLAP)  # later matches may continue in the next piece
        for found in BAR.finditer(buffer, max(0, bars_from - began)):
            if found.start() >= whole:
                break
            bars_from = began + found.end()
            if float(found["pace"]) > 0:
                _add(stretches, found, buffer, began, known)
        position = max(0, ends_from - began)
        while (word := buffer.find("'train_runtime'", position)) >= 0 and word < whole:
            start = buffer.rfind("{", max(0, word - 4000), word)
            found = END.match(buffer, start) if start >= 0 else None
            position = found.end() if found else word + 1
            if found:
                newline = buffer.rfind("\n", 0, start)
                column = start - newline if newline >= 0 else began + start - line_began + 1
                ends.append(Said(began + start, found[0], lines + buffer.count("\n", 0, start) + 1, column))
            ends_from = began + position
        cut = max(0, whole - OVERLAP)
        newline = buffer.rfind("\n", 0, cut)
        line_began = began + newline + 1 if newline >= 0 else line_began
        lines += buffer.count("\n", 0, cut)
        buffer, began = buffer[cut:], began + cut
    return Scanned(stretches, ends, lines + buffer.count("\n") + 1)


def _pieces(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the text of a file in pieces, each with True if it is the last. Bytes that are no text are replaced."""
    try:
        with path.open("rb") as file:
            start = file.read(2)
            wide = start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            file.seek(0)
            decoder = codecs.getincrementaldecoder("utf-16" if wide else "utf-8-sig")("replace")
            while content := file.read(PIECE):
                yield decoder.decode(content), False
            yield decoder.decode(b"", True), True
    except OSError as error:
        raise Unreadable(str(path), 1, 1, f"can't be read: {error.strerror}") from None


def _add(
    stretches: list[Stretch], found: re.Match[str], buffer: str, began: int, known: dict[tuple[str, str], Pace]
) -> None:
    """Add a bar to the last stretch if it continues it, or else begin a new stretch."""
    name, start = _name(buffer[max(0, found.start() - WIDEST) : found.start()]), began + found.start()
    done, total = int(found["done"]), int(found["total"])
    key = (found["pace"], found["unit"])
    pace = known.setdefault(key, Pace(*key))
    last = stretches[-1] if stretches else None
    if last and last.name == name and last.total == total and done >= last.last:
        last.last = done
        last.paces.append(pace)
        return
    stretches.append(Stretch(start, sys.intern(name), total, done, done, [pace]))


def _name(before: str) -> str:
    """Return the name of a bar from the text before its count, `Epoch 1/3:  6%|▌  | `; empty if it has none."""
    line = before[max(before.rfind("\r"), before.rfind("\n")) + 1 :].rstrip(" ")
    if not line.endswith("|"):
        return ""
    head = line[: max(0, line.rfind("|", 0, len(line) - 1))]
    percent = PERCENT.search(head[-8:])
    head = head[: len(head) - len(percent[0])].rstrip() if percent else ""
    if not head.endswith(":"):
        return ""
    name = NAME.search(head[:-1][-LONGEST_NAME - 1 :])[0]
    return name.strip() if 0 < len(name) <= LONGEST_NAME else ""
