"""The names of the parts of a configuration around a value: `dataset` around `dataset: {batch_size: 32}`."""

from __future__ import annotations

import re

OPENS = re.compile(
    r"(?P<indent>\s*)(?:- )?['\"]?(?P<name>[A-Za-z][\w .-]{0,60}?)?['\"]?\s*[:=]?\s*(?P<bracket>[({\[]?)\s*$"
)
"""A line that opens a part: `dataset:`, `"optimizer": {`, `TrainingArguments(`."""

OPENING = (":", "=", "(", "{", "[")
"""The last characters of such lines."""

CLOSES = re.compile(r"\s*[)}\]]")
INLINE = re.compile(r"(?P<name>[A-Za-z][\w.]{0,60})?['\"]?\s{0,3}[:=]?\s{0,3}(?P<bracket>[({\[])|[)}\]]")


class NestedNames:
    """The parts that are open at a line of a log, read line by line: by their brackets, or by their indents."""

    def __init__(self) -> None:
        self._open: list[tuple[int, bool, str]] = []
        """The indent of each part, whether a bracket closes it, and its name."""

    @property
    def names(self) -> list[str]:
        """Return the names of the parts that are open, the outermost first."""
        return [name for *_, name in self._open]

    def add(self, line: str) -> None:
        """Add a line. A part by indents ends with a line that is not further in; one in brackets also further out."""
        indent = len(line) - len(line.lstrip())
        closes = bool(CLOSES.match(line))
        while self._open and (indent < self._open[-1][0] or (indent == self._open[-1][0] and not self._open[-1][1])):
            self._open.pop()
        if closes and self._open and self._open[-1][1]:
            self._open.pop()
        found = OPENS.fullmatch(line)
        if found and (found["bracket"] or line.rstrip().endswith(":")):
            self._open.append((indent, bool(found["bracket"]), found["name"] or ""))


def names_around(before: str) -> list[str]:
    """Return the names of the parts of one line that are open behind the text `before`."""
    names: list[str] = []
    for found in INLINE.finditer(before):
        if found["bracket"]:
            names.append(found["name"] or "")
        elif names:
            names.pop()
    return names
