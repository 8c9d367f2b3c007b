"""Charts and tables for notebooks: JupyterLab shows them natively, and one output holds all that a report needs.

A chart has its description and its data in the figure's own `layout.meta`. From there the HTML template takes an
accessible name and a data table, without a second output beside the figure. The data lies there as lists, since a
notebook sorts the keys of what it keeps.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from itertools import chain, count
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from slowstep.text.markdown import escape, escape_cell, table
from slowstep.text.visible import visible_lines

WHITE = "#FFFFFF"

MIME = "application/vnd.plotly.v1+json"

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
"""Okabe and Ito's palette, for people who see fewer colours. A marker or a dash always shows the same as a colour."""

GREY = "#8A8A8A"

BROWN, WINE = "#A0743C", "#A65175"
"""Colours more, beside the palette, where ten are needed: they are never the only difference."""

ON_COLOUR = "#111111"
"""Text on a coloured ground. It stays dark on a dark page, where `BLACK` becomes the colour of the page's text."""


LONG_CELL = 60
"""The number of characters beyond which a cell holds a sentence and gets more width."""


def columns_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the keys of all rows, in the order in which they come."""
    return list(dict.fromkeys(chain.from_iterable(rows)))


def cells_of(rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """Return the cells of each row in the order of the columns. A row's cell is empty if it lacks the key."""
    return [[row.get(name, "") for name in columns_of(rows)] for row in rows]


def add_bars(figure: go.Figure, names: Iterable[str], values: Iterable[float | None], colour: Any, **more: Any) -> None:
    """Add lying bars, one for each name. `more` holds other properties of plotly's bars; texts stand at their ends."""
    beside = {"textposition": "outside", "cliponaxis": False} if "text" in more else {}
    x, y = list(values), list(names)
    figure.add_bar(x=x, y=y, orientation="h", hoverinfo="skip", marker_color=colour, **beside | more)
    figure.update_yaxes(showgrid=False)


class Chart:
    """A plotly figure with a description and the rows it draws."""

    def __init__(self, figure: go.Figure, description: str, rows: Sequence[dict[str, Any]], height: int = 320):
        self.figure, self.rows, self.description = figure, list(rows), description
        figure.update_layout(
            template="plotly_white",
            font={"family": "system-ui, sans-serif", "size": 13},
            margin={"l": 10, "r": 20, "t": 30, "b": 40},
            legend={"orientation": "h", "y": 1, "yanchor": "bottom", "traceorder": "normal"},
            height=height,
            meta={"description": description, "columns": columns_of(self.rows), "rows": cells_of(self.rows)},
        )
        figure.update_xaxes(automargin=True)
        figure.update_yaxes(automargin=True)

    @property
    def json(self) -> dict[str, Any]:
        """Return the figure as plotly's JSON."""
        return json.loads(self.figure.to_json())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {MIME: self.json, "text/plain": self.description}


class Table:
    """Rows with the same keys. Their values are shown as text, never as markup."""

    def __init__(self, rows: Sequence[dict[str, Any]], empty: str = "Nothing to show."):
        self.rows, self.empty = list(rows), empty

    @property
    def frame(self) -> pd.DataFrame:
        """Return the rows as a DataFrame, for further work."""
        return pd.DataFrame(self.rows)

    @property
    def turned(self) -> Table:
        """Return the table with its rows as columns, headed by its first column, if it has fewer rows than columns."""
        if not self.rows or len(self.rows) >= len(self.rows[0]):
            return self
        heading, *others = self.rows[0]
        names = {str(row[heading]) for row in self.rows}
        first = next(name for name in chain([heading], (f"figure {i}" for i in count(1))) if name not in names)
        return Table([{first: key} | {row[heading]: row[key] for row in self.rows} for key in others])

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{html.escape(self.empty)}</p>"
        shown = [{visible_lines(name): _shown(value) for name, value in row.items()} for row in self.rows]
        cells = pd.DataFrame(shown).map(_cell, na_action="ignore").rename(columns=html.escape)
        return cells.to_html(index=False, escape=False, border=0, na_rep="", classes="table")

    def __repr__(self) -> str:
        return self.frame.to_string(index=False) if self.rows else self.empty

    @property
    def markdown(self) -> str:
        """Return the rows as a Markdown table, for files that are read as text."""
        if not self.rows:
            return escape(self.empty)
        return table([[*map(escape_cell, row)] for row in (columns_of(self.rows), *cells_of(self.rows))])


def _shown(value: object) -> object:
    return visible_lines(value) if isinstance(value, str) else value


def _cell(value: object) -> str:
    """Return a cell as HTML. A sentence gets a class that gives it more width."""
    text = html.escape(str(value))
    return f'<div class="sentence">{text}</div>' if len(text) > LONG_CELL else text


class Text:
    """A text in Markdown that notebooks and reports render."""

    def __init__(self, markdown: str):
        self.markdown = markdown

    def _repr_markdown_(self) -> str:
        return self.markdown

    def __repr__(self) -> str:
        return self.markdown


def text_on(ground: str) -> str:
    """Return the colour of text on a coloured ground: dark or white, whichever can be read better."""
    return max((ON_COLOUR, WHITE), key=lambda text: contrast(text, ground))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours (`#RRGGBB`), from 1 to 21 (WCAG 2.2, "contrast ratio")."""
    lighter, darker = sorted(map(_luminance, (one, other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    """Return the relative luminance of a colour, 0 to 1 (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
