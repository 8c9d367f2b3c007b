"""The pieces of a drawing, as SVG: texts, boxes, lines, points. None of them knows what it stands for."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from html import escape

from slowstep.text.visible import visible

LETTER = 0.6
"""The mean width of a letter, as a share of the size of its font."""

FONT = 13
LINE = 16
"""The size of the font and the height of a line."""

SPACE = 8

MOST_LINES = 6
"""The most lines that a line of a label is divided into where it is wider than its room."""

BREAKS = "/_=.,;:-"
"""The characters behind which a word is divided that is wider than its room."""

INK = "currentColor"
DARK = {"black", "#000", "#000000", "#222", "#222222"}
"""Colours that stand for the colour of the page's text."""


def text(
    x: float,
    y: float,
    said: str,
    anchor: str,
    opacity: float = 1.0,
    room: float | None = None,
    colour: str = INK,
    whole: str = "",
) -> str:
    """Return a text whose lines are centred at `y`. One that is wider than its room is shortened.

    `whole` is shown where a pointer rests on it.
    """
    lines = [_fitting(row, room) for row in lines_of(said)]
    hover = f"<title>{escape(' '.join(lines_of(whole)))}</title>" if whole else ""
    first = y - (len(lines) - 1) * LINE / 2 + 0.35 * FONT
    faint = f' opacity="{opacity:g}"' if opacity < 1 else ""
    fill = f' fill="{escape(colour)}"' if colour != INK else ""
    return "".join(
        f'<text x="{x:.1f}" y="{first + i * LINE:.1f}" text-anchor="{anchor}"{faint}{fill}>{hover}{escape(line)}</text>'
        for i, line in enumerate(lines)
    )


def text_inside(left: float, wide: float, y: float, said: str, colour: str) -> str:
    """Return a text in the middle of a bar; nothing where it does not fit."""
    return text(left + wide / 2, y, said, "middle", colour=colour) if text_width(said) + SPACE <= wide else ""


def box(
    x: float, y: float, width: float, height: float, colour: str, pattern: str = "", border: str | None = None
) -> str:
    """Return a box, hatched if it has a `pattern`."""
    edge = f' stroke="{escape(ink(border))}"' if border else ""
    sides = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    drawn = f'<rect {sides} fill="{escape(colour)}"{edge}/>'
    if not pattern:
        return drawn
    strokes = []
    step = 7.0
    at = x
    while at < x + width:  # hatching, so that two kinds of bars differ by more than their colour
        upper = min(height, x + width - at)
        strokes.append(f"M{at:.1f} {y + height:.1f}l{upper:.1f} {-upper:.1f}")
        at += step
    return drawn + f'<path d="{"".join(strokes)}" stroke="#ffffff" stroke-width="1.5" opacity="0.75" fill="none"/>'


def line(
    x0: float, y0: float, x1: float, y1: float, colour: str, width: float, dash: str | None = None, opacity: float = 1.0
) -> str:
    """Return a straight line."""
    dashed = ' stroke-dasharray="5 4"' if dash and dash != "solid" else ""
    faint = f' opacity="{opacity:g}"' if opacity < 1 else ""
    ends = f'x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"'
    return f'<line {ends} stroke="{escape(colour)}" stroke-width="{width:g}"{dashed}{faint}/>'


def interval(low: float, high: float, y: float, colour: str, cut: tuple[bool, bool] = (False, False)) -> str:
    """Return a horizontal interval with its two ends. An end that is `cut` goes on beyond the drawing: an arrow."""
    ends = ""
    for x, goes_on, outwards in ((low, cut[0], -1), (high, cut[1], 1)):
        tips = (x - 6 * outwards, x) if goes_on else (x, x)
        ends += line(tips[0], y - 5, tips[1], y, colour, 2) + line(tips[0], y + 5, tips[1], y, colour, 2)
    return line(low, y, high, y, colour, 2) + ends


def point(x: float, y: float, symbol: str, diameter: float, colour: str) -> str:
    """Return a point in the shape that plotly calls `symbol`: a circle where it is none of those below."""
    s, colour = diameter / 2, escape(ink(colour))
    fill = "none" if symbol.endswith("-open") else colour
    pen = f'fill="{fill}" stroke="{colour}" stroke-width="2"'
    corners = {
        "diamond": ((0, -s), (s, 0), (0, s), (-s, 0)),
        "square": ((-s, -s), (s, -s), (s, s), (-s, s)),
        "triangle": ((-s, s), (s, s), (0, -s)),
    }.get(symbol.split("-")[0])
    if corners:
        places = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
        return f'<polygon points="{places}" {pen}/>'
    if symbol.startswith("x"):
        return f'<path d="M{x - s:.1f} {y - s:.1f}l{2 * s:g} {2 * s:g}m0 {-2 * s:g}l{-2 * s:g} {2 * s:g}" {pen}/>'
    if symbol.startswith("line-ns"):
        return line(x, y - s, x, y + s, colour, 2)
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{s:g}" {pen}/>'


def ink(colour: str) -> str:
    """Return a colour; that of the page's text for black."""
    return INK if colour.lower() in DARK else colour


def lines_of(said: str) -> list[str]:
    """Return the lines of a label, which plotly divides by `<br>`."""
    return [visible(line) for line in str(said).replace("\n", " ").split("<br>")]


def wrapped(said: str, room: float) -> str:
    """Return a label whose lines fit in the room: what does not goes on in the next line, so that nothing is lost.

    A line that would take more than `MOST_LINES` is shortened in its middle.
    """
    most = _letters(room)
    return "<br>".join(part for row in lines_of(said) for part in _divided(_shortened(row, MOST_LINES * most), most))


def _divided(row: str, most: int) -> Iterator[str]:
    """Yield a line in parts of at most so many letters: whole words, but for those that are longer."""
    fits = len(row) <= most
    for part in [row] if fits else textwrap.wrap(row, most, break_long_words=False, break_on_hyphens=False):
        while len(part) > most:
            at = max(part.rfind(mark, most // 2, most) for mark in BREAKS) + 1 or most
            yield part[:at]
            part = part[at:]
        yield part


def text_width(said: str) -> float:
    """Return about how wide a label is."""
    return LETTER * FONT * max(map(len, lines_of(said)))


def _fitting(row: str, room: float | None) -> str:
    """Return a line, shortened in its middle if it is wider than its room: labels often differ at their ends."""
    return row if room is None else _shortened(row, _letters(room))


def _letters(room: float) -> int:
    """Return how many letters fit in a room."""
    return max(8, int(room / (LETTER * FONT) + 1e-6))


def _shortened(row: str, most: int) -> str:
    """Return a line of at most so many letters."""
    if len(row) <= most:
        return row
    half = (most - 1) // 2
    return f"{row[:half]}…{row[len(row) - (most - 1 - half) :]}"
