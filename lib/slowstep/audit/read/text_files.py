"""What a text file is, by its beginning: a table, or a log, or nothing that can be read."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from slowstep.audit.read.cells import BORDER, DIVIDER
from slowstep.audit.read.source_text import Unreadable, encoding_of, size_of

BEGINNING = 1 << 16
"""The number of bytes that are looked at."""

FEW = 0.02
"""The share of characters that are no text from which on a file is none."""

LOG_LINE = re.compile(r"\r|\d/\d+ \[|train_runtime")
"""What only a log holds: a line drawn again, a bar, Trainer's last words."""

DIGITS = re.compile(r"\d+")


def beginning_of(path: Path) -> str:
    """Return the beginning of a file as text; Unreadable if it can't be read. Bytes that are no text are replaced."""
    size_of(path)
    try:
        with path.open("rb") as file:
            content = file.read(BEGINNING)
    except OSError as error:
        raise Unreadable(str(path), 1, 1, f"can't be read: {error.strerror}") from None
    return content.decode(encoding_of(content), "replace")


def refuse_no_text(path: Path) -> None:
    """Raise Unreadable if a file is empty, or holds bytes that are no text."""
    text = beginning_of(path)
    if not text.strip():
        raise Unreadable(str(path), 1, 1, "is empty")
    if text.count("\0") + text.count("\ufffd") > max(1, FEW * len(text)) and "\0" in text:
        raise Unreadable(str(path), 1, 1, "is no text: is it another file, or UTF-16 without a byte order mark?")


def looks_like_table(path: Path) -> bool:
    """Return whether a file with a log's name holds a table: lines with dividers, or as many tabs in every line.

    A log may have tabs, too. Its first line has numbers, or begins like others: with a level, or a time.
    """
    text = beginning_of(path).replace("\r\n", "\n")
    if LOG_LINE.search(text):
        return False
    lines = [line for line in text.split("\n")[:-1] or [text] if line.strip()]
    if any("|" in before and (DIVIDER.match(line) or BORDER.match(line)) for before, line in pairwise(lines)):
        return True
    tabs = {line.count("\t") for line in lines}
    header = lines[0].split("\t") if lines else []
    in_words = sum(any(c.isdigit() for c in cell) for cell in header) < len(header) / 2
    kinds = [DIGITS.sub("0", line.split("\t")[0]) for line in lines]  # of a log these are levels or times
    return in_words and len(lines) > 1 and len(tabs) == 1 and tabs != {0} and kinds[0] not in kinds[1:]


def boxed(path: Path) -> bool:
    """Return whether the tables of a file are drawn as boxes, so that a log may stand beside them."""
    dividers = [line for line in beginning_of(path).split("\n") if DIVIDER.match(line) or BORDER.match(line)]
    return bool(dividers) and all(line.lstrip().startswith(("|", "+")) for line in dividers)
