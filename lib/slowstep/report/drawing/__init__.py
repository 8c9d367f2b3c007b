"""Static drawings of charts: SVG made from plotly's own figures, for print, mail and readers without JavaScript.

A figure is defined once, as a plotly figure. Of it are drawn the kinds of traces that the kit uses: bars (beside each
other or stacked), points with intervals, and texts, on linear or categorical axes. Text takes the colour of the page
around it, so that one drawing suits a light page and a dark one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slowstep.report.drawing.figure import Drawing

WIDTH, NARROW = 760, 400
"""The widths of a drawing for a screen and for a phone, in its own units; the page scales it."""


def svg(figure: Mapping[str, Any], description: str = "", width: int = WIDTH, name: str = "") -> str:
    """Return a figure, given as plotly's JSON, as an SVG element that has no fixed size and no fixed text colour.

    `name` is its class in a style sheet. Without a description it is left out by screen readers: what is around it has
    one then.
    """
    return Drawing(figure, width).element(description, f' class="{name}"' if name else "")


def svg_file(figure: Mapping[str, Any], description: str) -> str:
    """Return a figure as a file by itself, which brings its heading, its ground and its colour of text."""
    drawn = Drawing(figure, WIDTH, description).element(description, "")
    return drawn.replace("<svg ", '<svg style="background: #ffffff; color: #1f2328" ', 1) + "\n"
