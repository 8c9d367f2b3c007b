"""A plotly figure as a drawing: its axes, its legend, its traces, its lines and boxes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from slowstep.report.drawing import pieces
from slowstep.report.drawing.axes import Axis, Trace, categories, number, title
from slowstep.report.drawing.pieces import FONT, INK, LINE, SPACE, ink, lines_of, text_width, wrapped
from slowstep.text.visible import visible_lines

ABOVE = 500
"""The width below which a row's label stands above it and not beside it."""


BESIDE = 0.42
"""The most of the width that labels beside their rows take."""


ANCHORS = {"right": "start", "left": "end"}
"""The end of a text that stands at its point, by the side of the point on which plotly has the text."""


class Drawing:
    """A figure that is being drawn, `width` units wide, below its `heading`."""

    def __init__(self, figure: Trace, width: int, heading: str = ""):
        self.heading = lines_of(wrapped(heading, width - 2 * SPACE)) if heading else []
        self.head = LINE * len(self.heading)
        self.traces = [trace for trace in figure["data"] if trace.get("visible", True) is True]
        self.bars = [trace for trace in self.traces if trace["type"] == "bar"]
        self.layout, self.width = figure["layout"], width
        self.barmode = self.layout.get("barmode")
        names = {axis: categories(self.traces, axis, self.layout) for axis in "xy"}
        self.legend = self._legend()
        self.above = bool(names["y"]) and width < ABOVE and not names["x"]
        right = self._room_at_the_right()
        room = width - right - 2 * SPACE if self.above else BESIDE * width
        self.labels = {name: wrapped(name, room) for name in names["y"]}
        """The labels of the rows, in lines that fit beside or above them."""
        labels = [line for name in self.labels.values() for line in lines_of(name)] or ["0000"]
        left = 2 * SPACE + (0 if self.above else min(BESIDE * width, max(map(text_width, labels))))
        upright = bool(title(self.layout, "yaxis")) and not names["y"]  # it stands above the axis, below the legend
        top = self.head + SPACE + LINE * (len(self.legend) + (upright and bool(self.legend)))
        below = SPACE + LINE + (LINE if title(self.layout, "xaxis") else 0)
        self.height = self.head + float(self.layout.get("height") or 320)
        row = max((len(lines_of(name)) for name in self.labels.values()), default=1) * LINE
        self.drop = row / 2 if self.above else 0.0
        if names["y"] and not names["x"]:
            beside = min(row, 2 * LINE) if self.above else row  # what stands above a row takes room of its own
            thick = max(beside, LINE * len(self.bars) * (self.barmode == "group")) + SPACE
            self.height = top + below + (thick + row if self.above else thick) * max(len(names["y"]), 1)
        self.x = self._axis("x", names["x"], left, width - right)
        self.y = self._axis("y", names["y"], self.height - below, top)

    def element(self, description: str, attributes: str) -> str:
        parts = [pieces.text(SPACE, SPACE + LINE * (i + 0.5), row, "start") for i, row in enumerate(self.heading)]
        parts += [*self._grid(), *self._legend_parts(), *self._shapes()]
        parts += self._bars()
        for trace in self.traces:
            if trace["type"] == "scatter":
                parts += self._points(trace)
        label = f'role="img" aria-label="{escape(visible_lines(description))}"' if description else 'aria-hidden="true"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height:.0f}" {label}{attributes} '
            f'font-family="system-ui, sans-serif" font-size="{FONT}" fill="{INK}">{"".join(parts)}</svg>'
        )

    def _room_at_the_right(self) -> float:
        """Return the room that texts behind bars need where the axis leaves none."""
        outside = [str(t) for b in self.bars if b.get("textposition") != "inside" for t in b.get("text") or () if t]
        fixed = self.layout.get("xaxis", {}).get("range")
        return 3.0 * SPACE + (0 if fixed else max(map(text_width, outside), default=0.0))

    def _row(self, name: Any) -> float:
        """Return the height at which a row's bar or point is drawn."""
        return self.y.place(name) + self.drop

    # -- axes --

    def _axis(self, letter: str, names: Sequence[str], start: float, end: float) -> Axis:
        given = self.layout.get(f"{letter}axis", {})
        turned = letter == "y" and given.get("autorange") == "reversed"
        heading = title(self.layout, f"{letter}axis")
        if names:
            low, high = -0.5, len(names) - 0.5
            ends = (end, start) if turned else (start, end)
            return Axis(*ends, low=low, high=high, names=tuple(names), title=heading)
        low, high = given.get("range") or self._range(letter, given.get("rangemode") == "tozero")
        return Axis(start, end, low=float(low), high=float(high), title=heading)

    def _range(self, letter: str, to_zero: bool) -> tuple[float, float]:
        """Return the range of all that is drawn along an axis, with a margin."""
        values = [0.0] if to_zero else []
        if letter == "x" and self.bars:
            values.append(0.0)
            if self.barmode == "stack":
                values += [
                    sum(length or 0.0 for length in row) for row in zip(*(b["x"] for b in self.bars), strict=True)
                ]
        for trace in self.traces:
            error = trace.get("error_x") or {}
            found = [number(v) for v in trace.get(letter) or range(len(trace.get("y") or ()))]
            less, more = (error.get(name) or [0.0] * len(found) for name in ("arrayminus", "array"))
            values += [v - (e or 0.0) for v, e in zip(found, less, strict=False) if v is not None]
            values += [v + (e or 0.0) for v, e in zip(found, more, strict=False) if v is not None]
        for shape in self.layout.get("shapes", ()):
            values += [float(shape[f"{letter}{i}"]) for i in (0, 1) if shape.get(f"{letter}ref") == letter]
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        margin = 0.05 * (high - low or 1.0)
        return (low if to_zero and low == 0 else low - margin), high + margin

    def _grid(self) -> Iterable[str]:
        for place, text in self.x.ticks:
            yield pieces.line(place, self.y.end, place, self.y.start, INK, 1, opacity=0.12)
            yield pieces.text(place, max(self.y.start, self.y.end) + LINE, text, "middle", opacity=0.8)
        for place, text in self.y.ticks:
            if not self.y.names:
                yield pieces.line(self.x.start, place, self.x.end, place, INK, 1, opacity=0.12)
            label = self.labels.get(text, text)
            whole = text if lines_of(label) != lines_of(text) else ""
            if self.above:
                room = self.x.end - self.x.start
                yield pieces.text(self.x.start, place - LINE / 2, label, "start", room=room, whole=whole)
            else:
                room = self.x.start - 2 * SPACE
                yield pieces.text(self.x.start - SPACE, place, label, "end", room=room, whole=whole)
        if self.x.title:
            middle = (self.x.start + self.x.end) / 2
            room = self.width - 2 * SPACE
            yield pieces.text(middle, self.height - SPACE, self.x.title, "middle", opacity=0.8, room=room)
        if self.y.title and not self.y.names:
            yield pieces.text(self.x.start - SPACE, self.y.end - SPACE / 2, self.y.title, "end", opacity=0.8)

    # -- legend --

    def _legend(self) -> list[list[Trace]]:
        """Return the traces that the legend names, by line."""
        named = [t for t in self.traces if t.get("name") and t.get("showlegend") is not False]
        if not (self.layout.get("showlegend") or len(named) > 1):
            return []
        lines: list[list[Trace]] = [[]]
        used = 0.0
        for trace in named:
            wide = text_width(trace["name"]) + 4 * SPACE
            if lines[-1] and used + wide > self.width - 2 * SPACE:
                lines.append([])
                used = 0.0
            lines[-1].append(trace)
            used += wide
        return lines

    def _legend_parts(self) -> Iterable[str]:
        for i, traces in enumerate(self.legend):
            x, y = 2.0 * SPACE, self.head + SPACE + LINE * (i + 0.5)
            for trace in traces:
                if trace["type"] == "bar":
                    yield pieces.box(x - 5, y - 5, 10, 10, _colour(trace, 0), _pattern(trace))
                else:
                    yield self._marker(x, y, trace)
                yield pieces.text(x + 10, y, trace["name"], "start")
                x += text_width(trace["name"]) + 4 * SPACE

    # -- traces --

    def _bars(self) -> Iterable[str]:
        """Draw horizontal bars: beside each other, or stacked where the layout says so."""
        bars, stacked = self.bars, self.barmode == "stack"
        overlaid = len(bars) > 1 and self.barmode is None and _disjoint(bars)
        rows = abs(self.y.end - self.y.start) / max(len(self.y.names), 1) - 2 * self.drop
        sides = 1 if stacked or overlaid else max(len(bars), 1)
        thick = min(0.72 * rows, 22.0 * sides) / sides
        ends: dict[str, float] = {}
        for side, bar in enumerate(bars):
            error, texts = bar.get("error_x") or {}, bar.get("text") or ()
            for i, (name, value) in enumerate(zip(bar["y"], bar["x"], strict=True)):
                if value is None:
                    continue
                below = ends.get(name, 0.0) if stacked else 0.0
                ends[name] = below + value
                first, last = self.x.place(below), self.x.place(below + value)
                # later traces stand above earlier ones, as plotly has it on an axis that grows upwards
                shift = 0.0 if sides == 1 else ((sides - 1) / 2 - side) * thick * (1 if self._upwards else -1)
                y = self._row(name) + shift
                left, wide = min(first, last), abs(last - first)
                yield pieces.box(left, y - thick / 2, wide, thick * 0.92, _colour(bar, i), _pattern(bar))
                if error:
                    low, high, cut = self._ends(below + value, error, i)
                    yield pieces.interval(low, high, y, INK, cut)
                    last = high
                if i < len(texts) and texts[i]:
                    if bar.get("textposition") == "inside":
                        yield pieces.text_inside(left, wide, y, str(texts[i]), _text_colour(bar, i))
                    else:
                        yield pieces.text(max(first, last) + SPACE / 2, y, str(texts[i]), "start")

    @property
    def _upwards(self) -> bool:
        return self.y.start > self.y.end

    def _points(self, trace: Trace) -> Iterable[str]:
        ys = trace.get("y") or ()
        xs = trace.get("x") or range(len(ys))
        error, texts = trace.get("error_x") or {}, trace.get("text") or ()
        for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
            if x is None or y is None:
                continue
            at = (self.x.place(x), self._row(y))
            if "markers" in trace.get("mode", "markers"):
                if error:
                    low, high, cut = self._ends(x, error, i)
                    yield pieces.interval(low, high, at[1], ink(error.get("color") or _colour(trace, i)), cut)
                if self.x.start <= at[0] <= self.x.end:
                    yield self._marker(*at, trace)
            if "text" in trace.get("mode", "") and i < len(texts):
                anchor = ANCHORS.get(trace.get("textposition", "").rpartition(" ")[2], "middle")
                yield pieces.text(*at, str(texts[i]), anchor, colour=_text_colour(trace, i))

    def _ends(self, value: float, error: Trace, i: int) -> tuple[float, float, tuple[bool, bool]]:
        """Return the ends of an interval, and which of them are cut.

        One that is infinite, null in JSON, or beyond the axis is cut where the axis ends.
        """
        less, more = error["arrayminus"][i], error["array"][i]
        low = -math.inf if less is None else self.x.place(value - less)
        high = math.inf if more is None else self.x.place(value + more)
        within = [min(max(end, self.x.start), self.x.end) for end in (low, high)]
        return within[0], within[1], (low < self.x.start, high > self.x.end)

    # -- lines and boxes of the layout --

    def _shapes(self) -> Iterable[str]:
        for shape in filter(self._is_within, self.layout.get("shapes", ())):
            x = [self._along(self.x, shape, "x", i) for i in (0, 1)]
            y = [self._along(self.y, shape, "y", i) for i in (0, 1)]
            line = shape.get("line", {})
            if shape.get("type") == "rect":
                left, upper = min(x), min(y)
                colour = ink(shape.get("fillcolor") or "none")
                yield pieces.box(left, upper, abs(x[1] - x[0]), abs(y[1] - y[0]), colour, "", line.get("color"))
                continue
            # where labels stand above their rows, a line across all rows stops at each, so that it strikes no text out
            rows = [self._row(name) for name in self.y.names] if self.above and x[0] == x[1] else []
            for upper, lower in [(row - LINE / 2, row + LINE / 2) for row in rows] or [(y[0], y[1])]:
                ends = (x[0], upper, x[1], lower)
                yield pieces.line(*ends, ink(line.get("color", INK)), line.get("width", 1), line.get("dash"))

    def _is_within(self, shape: Trace) -> bool:
        """Return whether a line or box lies within linear axes: one beyond them is not to be seen."""
        for letter, axis in (("x", self.x), ("y", self.y)):
            if shape.get(f"{letter}ref", letter) == letter and not axis.names:
                ends = [float(shape[f"{letter}{i}"]) for i in (0, 1)]
                if max(ends) < axis.low or min(ends) > axis.high:
                    return False
        return True

    def _along(self, axis: Axis, shape: Trace, letter: str, i: int) -> float:
        value, reference = shape[f"{letter}{i}"], shape.get(f"{letter}ref", letter)
        if reference != letter:  # a share of the whole axis
            return axis.start + float(value) * (axis.end - axis.start)
        if axis.names and isinstance(value, (int, float)):
            return axis.at(float(value))  # between categories, which are counted from 0
        return min(max(axis.place(value), min(axis.start, axis.end)), max(axis.start, axis.end))

    def _marker(self, x: float, y: float, trace: Trace) -> str:
        marker = trace.get("marker") or {}
        return pieces.point(x, y, str(marker.get("symbol", "circle")), float(marker.get("size", 8)), _colour(trace, 0))


def _disjoint(bars: Sequence[Trace]) -> bool:
    """Return whether no row has bars of two traces."""
    rows = [name for bar in bars for name in bar["y"]]
    return len(rows) == len(set(rows))


def _colour(trace: Trace, i: int) -> str:
    colour = (trace.get("marker") or {}).get("color", "#0072B2")
    return colour if isinstance(colour, str) else colour[i]


def _text_colour(trace: Trace, i: int) -> str:
    colour = (trace.get("textfont") or {}).get("color") or INK
    return ink(colour if isinstance(colour, str) else colour[i])


def _pattern(trace: Trace) -> str:
    return ((trace.get("marker") or {}).get("pattern") or {}).get("shape") or ""
