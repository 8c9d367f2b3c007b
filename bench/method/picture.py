"""The worked example as plain SVG: the blocks of each pair, their ratio, and the interval at each look."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

from bench.method.example import Example, rate
from slowstep.investigation import ROOT
from slowstep.judgement.throughput import unit
from slowstep.judgement.verdict import span
from slowstep.report.chart import BLACK, BLUE, GREEN, ORANGE

PICTURE = ROOT / "docs" / "method.svg"

WIDTH, HEIGHT, LEFT, RIGHT = 780, 440, 74, 600
"""The size of the picture, and the sides of its panels, in pixels. The legend stands beside the panels."""

RATES, CHANGES = (62, 150), (176, 388)
"""Top and bottom of the two panels, in pixels."""

SHADES = ("#F2F2F2", "#FFFFFF")
"""Behind the pairs of one launch, by turns."""

DARK, LIGHT = "#555555", "#DDDDDD"


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A range of values, drawn between two pixels."""

    values: tuple[float, float]
    pixels: tuple[float, float]

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        (low, high), (first, last) = self.values, self.pixels
        return round(first + (value - low) / (high - low) * (last - first), 1)

    def multiples(self, *steps: float) -> list[float]:
        """Return the multiples, within the range, of the first step that gives no more than six."""
        low, high = self.values
        step = next(s for s in steps if (high - low) / s <= 6)
        return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def picture(told: Example) -> str:
    """Return the whole picture."""
    pairs = told.pairs
    across = Axis(values=(0.4, len(pairs) + 0.8), pixels=(LEFT, RIGHT))
    said = f"{told.contrast.name}: {span(told.verdict.effect)} after {len(pairs)} pairs, {told.verdict.outcome}."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" aria-labelledby="said" font-family="system-ui, sans-serif" font-size="12">',
        f'<title id="said">{escape(said)}</title>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 20, f"{told.contrast.name} against the baseline", weight="bold", size=14),
        *_launches(told, across),
        *_rates(told, across),
        *_changes(told, across),
        *(_text(across(i), CHANGES[1] + 18, str(i), anchor="middle") for i in range(1, len(pairs) + 1)),
        _text((LEFT + RIGHT) / 2, CHANGES[1] + 38, "pair of blocks, in the order of measuring", anchor="middle"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _launches(told: Example, across: Axis) -> list[str]:
    """Shades behind the pairs that share their launches."""
    numbers, parts = [p.launch for p in told.pairs], []
    for number in dict.fromkeys(numbers):
        first = numbers.index(number)
        last = first + numbers.count(number)
        left = across(first + 0.5) if first else LEFT
        right = across(last + 0.5) if last < len(numbers) else RIGHT
        for top, bottom in (RATES, CHANGES):
            box = f'x="{left}" y="{top}" width="{right - left:.1f}" height="{bottom - top}"'
            parts.append(f'<rect {box} fill="{SHADES[number % 2]}"/>')
        parts.append(_text((left + right) / 2, RATES[0] - 7, f"launches {number + 1}", anchor="middle", fill=DARK))
    return parts


def _rates(told: Example, across: Axis) -> list[str]:
    """The upper panel: what the two blocks of each pair did."""
    rates = [(rate(p.baseline), rate(p.treatment)) for p in told.pairs]
    up = Axis(values=(0.0, 1.1 * max(map(max, rates))), pixels=RATES[::-1])
    tick = 10 ** math.floor(math.log10(up.values[1]))
    parts = _scale(up, {value: f"{value:,.0f}" for value in up.multiples(tick, 2 * tick, 5 * tick)})
    parts.append(_text(14, sum(RATES) / 2, unit([p.baseline for p in told.pairs]), turned=True))
    for i, (before, after) in enumerate(rates, 1):
        x = across(i)
        parts.append(_line(x, up(before), x, up(after), DARK))
        parts += [_square(x, up(before)), _circle(x, up(after), BLUE)]
    marks = [(_square, "block of the baseline"), (lambda x, y: _circle(x, y, BLUE), "block of the treatment")]
    for i, (mark, words) in enumerate(marks):
        y = RATES[0] + 20 + 22 * i
        parts += [mark(RIGHT + 20, y), _text(RIGHT + 34, y + 4, words)]
    return parts


def _changes(told: Example, across: Axis) -> list[str]:
    """The lower panel, on a logarithmic scale: the change in each pair, and the interval at each look."""
    looks = told.looks
    far = [*told.ratios, 0.0, *(end for look in looks for end in (look.effect.lower, look.effect.upper))]
    up = Axis(values=(min(far) - 0.03, max(far) + 0.03), pixels=CHANGES[::-1])
    as_change = Axis(values=(math.expm1(up.values[0]), math.expm1(up.values[1])), pixels=CHANGES)
    ticks = as_change.multiples(0.05, 0.1, 0.2, 0.5, 1.0)
    parts = _scale(up, {math.log1p(value): f"{100 * value:+.0f} %" for value in ticks if abs(value) > 1e-9})
    parts.append(_text(14, sum(CHANGES) / 2, "treatment against baseline", turned=True))
    least = up(math.log1p(told.minimum))
    parts.append(_line(LEFT, up(0.0), RIGHT, up(0.0), BLACK))
    parts.append(_line(LEFT, least, RIGHT, least, GREEN, ' stroke-dasharray="5 4"'))
    parts += [_text(LEFT - 7, up(0.0) + 4, "0", anchor="end"), _text(RIGHT + 6, up(0.0) + 10, "no change")]
    parts.append(_text(RIGHT + 6, least - 1, f"minimum effect, {100 * told.minimum:+.0f} %"))
    parts += [_circle(across(i), up(value), BLACK) for i, value in enumerate(told.ratios, 1)]
    for look in looks:
        ends = (up(look.effect.upper), up(look.effect.mean), up(look.effect.lower))
        parts.append(_interval(across(look.pairs + 0.3), ends, look.decided))
    y = CHANGES[0] + 20
    parts += [_circle(RIGHT + 20, y, BLACK), _text(RIGHT + 34, y + 4, "change in one pair")]
    for decided, words in ((False, "interval at a look"), (True, "interval that decides")):
        y += 24
        parts += [_interval(RIGHT + 20, (y - 8, y, y + 8), decided), _text(RIGHT + 34, y + 4, words)]
    return parts


def _scale(up: Axis, labels: Mapping[float, str]) -> list[str]:
    """Lines and labels of a vertical axis."""
    lines = [_line(LEFT, up(value), RIGHT, up(value), LIGHT) for value in labels]
    return lines + [_text(LEFT - 7, up(value) + 4, label, anchor="end") for value, label in labels.items()]


def _interval(x: float, ends: tuple[float, float, float], decided: bool) -> str:
    """An upright bar with caps, and a longer stroke at the estimate; `ends` from the top to the bottom."""
    top, middle, bottom = ends
    colour, width = (GREEN, 3) if decided else (DARK, 1.5)
    way = f"M{x} {top}V{bottom}M{x - 5:.1f} {top}h10M{x - 5:.1f} {bottom}h10M{x - 8:.1f} {middle}h16"
    return f'<path d="{way}" stroke="{colour}" stroke-width="{width}" fill="none"/>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}"{more}/>'


def _circle(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x}" cy="{y}" r="4.5" fill="{colour}"/>'


def _square(x: float, y: float) -> str:
    return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{ORANGE}"/>'


def _text(x: float, y: float, words: str, turned: bool = False, **style: object) -> str:
    names = {"anchor": "text-anchor", "weight": "font-weight", "size": "font-size", "fill": "fill"}
    how = "".join(f' {names[key]}="{value}"' for key, value in style.items())
    turn = f' text-anchor="middle" transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{how}{turn}>{escape(words)}</text>'
