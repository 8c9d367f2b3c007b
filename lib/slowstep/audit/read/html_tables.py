"""The tables of an HTML page, of a notebook, or of HTML within Markdown, as Markdown."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path
from typing import Any

from slowstep.audit.read.source_text import Unreadable, text_of
from slowstep.text.markdown import table

TABLE = re.compile(r"<table\b", re.IGNORECASE)
HIDDEN = ("script", "style", "head", "svg")
"""Elements whose text nobody sees."""

BREAKS = ("p", "div", "li", "br", "h1", "h2", "h3", "h4", "h5", "h6", "pre")
"""Elements that begin a line."""

FENCE = "````"
"""What stands around printed text, as around the code of a Markdown text."""

MOST, DIGITS = 100, 5
"""The most columns and rows that one cell spans, and the digits that are read of their number."""


def holds_html_table(text: str) -> bool:
    """Return whether a text holds a table that is written in HTML."""
    return bool(TABLE.search(text))


def as_markdown(text: str) -> str:
    """Return a text with its HTML as Markdown: tables with dividers, and the text between them."""
    page = _Page()
    page.feed(text)
    page.close()
    return "".join(page.said)


def notebook_text(path: Path) -> str:
    """Return what a notebook shows, in its order: Markdown cells, printed text and tables; Unreadable if it is none."""
    text = text_of(path)
    try:
        cells = json.loads(text)["cells"]
        return "\n\n".join(text for cell in cells for text in _shown(cell))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Unreadable(str(path), 1, 1, "is no notebook: it holds no `cells`") from None


def _shown(cell: dict[str, Any]) -> list[str]:
    if cell.get("cell_type") == "markdown":
        return [_joined(cell["source"])]
    return [_as_blocks(drawn, [*each]) for drawn, each in groupby(cell.get("outputs", ()), _is_drawn)]


def _is_drawn(output: dict[str, Any]) -> bool:
    """Return whether an output is a page or Markdown, and no printed text."""
    return not {"text/html", "text/markdown"}.isdisjoint(output.get("data", {}))


def _as_blocks(drawn: bool, outputs: list[dict[str, Any]]) -> str:
    """Return outputs as Markdown: printed ones as one block, since a program may print by two streams in turn."""
    each = [output.get("data", {}) for output in outputs]
    if drawn:
        return "\n\n".join(
            as_markdown(_joined(data["text/html"])) if "text/html" in data else _joined(data["text/markdown"])
            for data in each
        )
    printed = [_joined(data.get("text/plain", o.get("text", ""))) for data, o in zip(each, outputs, strict=True)]
    return f"{FENCE}\n{''.join(printed)}\n{FENCE}"


def _joined(lines: Any) -> str:
    return lines if isinstance(lines, str) else "".join(lines)


class _Page(HTMLParser):
    """An HTML text that is read, with what it says as Markdown."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.said: list[str] = []
        self._rows: list[list[str]] = []
        self._below: dict[int, tuple[int, str]] = {}
        """Cells that span rows: by column how many rows are still below, and the text."""
        self._cell: list[str] | None = None
        self._spans = (1, 1)
        self._depth = 0
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the beginning of an element."""
        self._hidden += tag in HIDDEN
        if tag == "table":
            self._depth += 1
            if self._depth == 1:
                self._rows, self._below = [], {}
        elif self._depth == 1 and tag == "tr":
            self._end_cell()
            self._rows.append([])
            self._fill()
        elif self._depth == 1 and tag in ("td", "th") and self._rows:
            self._end_cell()
            given = dict(attrs)
            self._spans = (_span(given.get("colspan")), _span(given.get("rowspan")))
            self._cell = []
        elif tag in BREAKS:
            self.handle_data(" " if self._depth else f"\n{FENCE}\n" if tag == "pre" else "\n")

    def handle_endtag(self, tag: str) -> None:
        """Take the end of an element."""
        self._hidden -= tag in HIDDEN and self._hidden > 0
        if tag == "table" and self._depth:
            self._depth -= 1
            if not self._depth:
                self._end_cell()
                self.said.append(_table(self._rows))
        elif self._depth == 1 and tag in ("td", "th", "tr"):
            self._end_cell()
        elif tag == "pre" and not self._depth:
            self.handle_data(f"\n{FENCE}\n")

    def handle_data(self, data: str) -> None:
        """Take text, which is that of a cell within a table."""
        if self._hidden:
            return
        if self._cell is not None:
            self._cell.append(data)
        elif not self._depth:
            self.said.append(data)

    def _end_cell(self) -> None:
        if self._cell is None:
            return
        text = " ".join("".join(self._cell).split()).replace("|", "\\|")
        self._cell = None
        wide, high = self._spans
        for _ in range(wide):
            if high > 1:
                self._below[len(self._rows[-1])] = (high - 1, text)
            self._rows[-1].append(text)
        self._fill()

    def _fill(self) -> None:
        """Fill the places of the last row that cells above it span."""
        row = self._rows[-1]
        while len(row) in self._below:
            left, text = self._below.pop(len(row))
            if left > 1:
                self._below[len(row)] = (left - 1, text)
            row.append(text)


def _span(text: str | None) -> int:
    return max(1, min(int(text[:DIGITS]), MOST)) if text and text.isdecimal() else 1


def _table(rows: list[list[str]]) -> str:
    rows = [row for row in rows if row]
    if not rows:
        return ""
    return "\n".join(["\n", table(rows), "\n"])
