"""Progress bars of tqdm and the last words of Trainer, found in a log of any size.

A log whose bars are drawn over each other is a single line, however large it is. So the log is read in pieces that
overlap, and only the pace of each bar is kept.
"""

from __future__ import annotations

import codecs
import functools
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from slowstep.audit.read.bar_names import bar_name, prefixes_in
from slowstep.audit.read.source_text import Unreadable, encoding_of
from slowstep.audit.read.stretches import MANY, Pace, Stretch, pace_of

PIECE = 1 << 20
"""The number of characters that are read at once."""

OVERLAP = 1 << 13
"""The number of characters that are read again with the next piece: more than any bar, or Trainer's last words, has."""

COUNT = r"\d{1,12}(?:\.\d{1,4})?[kMGT]?"
DAYS = r"(?:\d{1,4} days?, )?"
CLOCK = rf"{DAYS}(?:\d{{1,6}}:)?\d{{1,6}}:\d\d"
BARE = (
    r"(?P<bare_pace>\d+(?:\.\d+)?)\s?(?P<bare_unit>s/[A-Za-z]{1,12}|[A-Za-z]{1,12}/s) "
    r"(?P<bare_elapsed>(?:\d{1,6}:){1,2}\d\d|\d{1,6}(?:\.\d)?s)"
)
"""The end of a bar without brackets, as Ultralytics draws it: `50/50 4.1it/s 12.2s`."""

DRAWN = re.compile(r"(?P<head>.*?)\d{1,3}% [━─╸╺╾╼]+ ?$", re.DOTALL)
"""What stands before the count of such a bar."""

BAR = re.compile(
    rf"(?<![\d.])(?P<done>{COUNT})/(?P<total>{COUNT}) (?:\[(?P<elapsed>{CLOCK})<{DAYS}[^,\]]{{0,30}},"
    r"\s{0,9}(?P<pace>\d+(?:\.\d+)?)\s?(?P<unit>s/[A-Za-z]{1,12}|[A-Za-z]{1,12}/s)[,\]]|"
    rf"{BARE})"
)
"""A bar of tqdm: `Epoch 1/3:  6%|▌  | 120/2000 [04:15<1:06:41, 2.13s/it]`. Trainer's own bars have no name."""

POSTFIX = re.compile(
    r"[^\]\r\n|]{0,200}?(?<![a-z_/.])(?:(?:train|step|batch|avg|mean|ema|total)\w{0,10}[_ /.])?loss\s?[=:]",
    re.IGNORECASE,
)
"""What stands behind the pace of a bar that shows a training's loss: ` lr=1e-5, step_loss=0.0312]`."""
OF_LIGHTNING = re.compile(r"[^\]\r\n]{0,200}?\bv_num=")
"""What Lightning shows behind the pace of its bars, which count the batches of a loader."""

PERCENT = re.compile(r"\d+%$")

END_WORD = re.compile(r"""(["'])train_runtime\1|\*{3,} train metrics \*{3,}""")
END = re.compile(r"""\{[^{}]{0,4000}(["'])train_runtime\1[^{}]{0,4000}\}""")
"""Trainer's last words: what it prints when training ends, or a script writes as JSON."""

BLOCK = re.compile(r"\*{3,} train metrics \*{3,}(?:\r?\n[^\n=]{0,60}=[^\n]{0,60}){1,30}")
"""Trainer's last words as its example scripts print them (`log_metrics`)."""

BEGINNING = 1 << 16
"""The number of characters in which the prefixes of a launcher are looked for."""

WIDEST = 400
"""The most characters of a bar before its count."""

LARGEST = 10**15
"""The largest count that is kept; a larger one is none of a training."""

ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
"""What colours a terminal or moves its cursor."""

LINE_ENDS = re.compile(r"[\r\n\b]+")

CUT_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]{0,20})?\Z")
"""The beginning of an escape sequence at the end of a piece."""


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


def scan(path: Path, with_metrics: bool = True) -> Scanned:
    """Return the bars and the last words in a log; Unreadable if it can't be read.

    Bars are called by their descriptions, `with_metrics` in these or without.
    """
    stretches: list[Stretch] = []
    ends: list[Said] = []
    # the buffer's place in the log, the lines before it, and the place where its line began
    buffer, began, lines, line_began = "", 0, 0, 0
    prefixes: Collection[str] | None = None
    bars_from = ends_from = 0  # all before these places in the log was found
    for piece, last in pieces(path):
        buffer += piece
        prefixes = prefixes_in(buffer[:BEGINNING]) if prefixes is None else prefixes
        whole = len(buffer) if last else max(0, len(buffer) - OVERLAP)  # later matches may continue in the next piece
        for found in BAR.finditer(buffer, max(0, bars_from - began)):
            if found.start() >= whole:
                break
            bars_from = began + found.end()
            before = _line_before(buffer, found.start())
            head = _head_of_drawn(before) if found["bare_pace"] else _head(before)
            pace = pace_of(found["pace"] or found["bare_pace"], found["unit"] or found["bare_unit"])
            if pace and head is not None:
                _add(stretches, found, bar_name(head, prefixes or (), with_metrics), began, pace)
                stretches[-1].shows_loss |= found[0].endswith(",") and bool(POSTFIX.match(buffer, found.end()))
                stretches[-1].of_batches |= bool(OF_LIGHTNING.match(buffer, found.end()))
        position = max(0, ends_from - began)
        while (match := END_WORD.search(buffer, position)) and match.start() < whole:
            word = match.start()
            start = buffer.rfind("{", max(0, word - 4000), word) if match[1] else word
            found = (END if match[1] else BLOCK).match(buffer, start) if start >= 0 else None
            position = found.end() if found else match.end()
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
    return Scanned(stretches, ends, lines + buffer.rstrip("\n").count("\n") + 1)


def pieces(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the text of a file in pieces without colours, each with True if it is the last.

    Bytes that are no text are replaced.
    """
    try:
        with path.open("rb") as file:
            decoder = codecs.getincrementaldecoder(encoding_of(file.read(2)))("replace")
            file.seek(0)
            rest = ""
            while content := file.read(PIECE):
                text = rest + decoder.decode(content)
                cut = CUT_ESCAPE.search(text, max(0, len(text) - 30))
                rest = cut[0] if cut else ""
                yield ESCAPES.sub("", text[: len(text) - len(rest)]), False
            yield rest + decoder.decode(b"", True), True
    except OSError as error:
        raise Unreadable(str(path), 1, 1, f"can't be read: {error.strerror}") from None


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a log, and each state of a line that is drawn again; of long ones the beginning."""
    return (line for _, line in placed_lines(path))


def placed_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield these lines with their places in the log, in characters."""
    rest, began = "", 0
    for piece, _ in pieces(path):
        text, at = rest + piece, 0
        for found in LINE_ENDS.finditer(text):
            yield began + at, text[at : min(found.start(), at + OVERLAP)]
            at = found.end()
        rest = text[at:]
        began += at
        if len(rest) > OVERLAP:  # the places of the lines behind it stay as they are
            began += len(rest) - OVERLAP
            rest = rest[:OVERLAP]
    yield began, rest


def _add(stretches: list[Stretch], found: re.Match[str], name: str, began: int, pace: Pace) -> None:
    """Add a bar to the last stretch if it continues it, or else begin a new stretch."""
    done, total = _count(found["done"]), _count(found["total"])
    elapsed = _seconds(found["elapsed"] or found["bare_elapsed"])
    last = stretches[-1] if stretches else None
    same = last and last.name == name and last.total == total
    if not same or done < last.last or not last.began_before(elapsed):
        stretches.append(Stretch(began + found.start(), sys.intern(name), total, done, done))
    stretches[-1].add(done, elapsed, pace)


def _count(text: str) -> int:
    """Return a count, which may be scaled: `1.5k` is 1500."""
    letter = text[-1] if text[-1] in MANY else ""
    return min(LARGEST, round(float(text.removesuffix(letter)) * MANY.get(letter, 1.0)))


@functools.lru_cache(maxsize=1 << 16)
def _seconds(clock: str) -> int:
    """Return the seconds of a clock: `04:15`, `1:06:41`, `1 day, 3:00:00`, `12.2s`."""
    if clock.endswith("s"):
        return round(float(clock[:-1]))
    *days, clock = re.split(r" days?, ", clock)
    seconds = functools.reduce(lambda whole, part: 60 * whole + int(part), clock.split(":"), 0)
    return seconds + 86400 * sum(map(int, days))


def _line_before(buffer: str, start: int) -> str:
    """Return what stands before a place in its line, which may be drawn over another one."""
    before = buffer[max(0, start - WIDEST) : start]
    return before[max(before.rfind("\r"), before.rfind("\n")) + 1 :]


def _head(before: str) -> str:
    """Return what stands before the percentage of a bar, `Epoch 1/3:` before `6%|▌  | `; empty without one."""
    line = before.rstrip(" ")
    head = line[: max(0, line.rfind("|", 0, len(line) - 1))] if line.endswith("|") else ""
    percent = PERCENT.search(head[-8:])
    return head[: len(head) - len(percent[0])].rstrip() if percent else ""


def _head_of_drawn(before: str) -> str | None:
    """Return what stands before the percentage of a bar without brackets; None if no bar is drawn there."""
    drawn = DRAWN.fullmatch(before)
    return drawn["head"].rstrip() if drawn else None
