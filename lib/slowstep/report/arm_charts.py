"""The figures of the arms. Each takes judgements and returns a chart; none measures or judges."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

import plotly.graph_objects as go

from slowstep.factors import CATALOGUE, Meaning
from slowstep.factors.factor import show
from slowstep.investigation.results import Baseline, Measured
from slowstep.judgement.throughput import unit
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.records import Status
from slowstep.report.chart import BLACK, BLUE, GREEN, GREY, ON_COLOUR, ORANGE, SKY, VERMILION, Chart, Table, add_bars
from slowstep.report.tables import NO_COMBINATION
from slowstep.settings import Settings
from slowstep.text.numbers import asked
from slowstep.wording.words import NOT_REACHED, effect, rate, sign, size

MARKERS = {
    Outcome.SUPPORTED: (GREEN, "circle"),
    Outcome.REFUTED: (VERMILION, "x"),
    Outcome.INCONCLUSIVE: (GREY, "diamond-open"),
    Outcome.NOT_TESTABLE: (BLACK, "line-ns-open"),
}

LINE = 17
"""The height of a label's line, in pixels."""

LONG = 36
"""The most characters of a label's line, if it can be divided between two changes or two words."""

NOTHING_MEASURED = "No change was measured here; the table of the changes says why."

BETWEEN = re.compile(r"(?:(?<=;) | (?=\+ ))(?![^(]*\))")
"""What stands between two changes that one arm makes."""


def intervals(measured: Sequence[Measured], minimum_effect: float) -> Chart | Table:
    """Draw every arm's effect with its interval, in the judged unit. Arms without a measurement keep their row."""
    if not any(m.verdict.effect for m in measured):
        return Table([], empty=NOTHING_MEASURED)
    judged = unit([block for m in measured if m.record for block in m.record.blocks])
    return effects([(_label(m), m.verdict) for m in measured], minimum_effect, judged)


def effects(labelled: Sequence[tuple[str, Verdict]], minimum_effect: float, judged: str = "throughput") -> Chart:
    """Draw the effect of each verdict with its interval, the largest at the top, under its label.

    `judged` is the unit. If there are several verdicts on one change, the figure's description has the last one.
    """
    ordered = sorted(labelled, key=lambda one: one[1].effect.mean if one[1].effect else float("-inf"))
    names = [_row(name, v) for name, v in ordered]
    figure = go.Figure()
    axis = _readable([v for _, v in ordered if v.effect], minimum_effect)
    spans = [(name, v, 100 * (v.effect.low - 1), 100 * (v.effect.high - 1)) for name, v in ordered if v.effect]
    drawn = [(name, v) for name, v, low, high in spans if low <= axis[1] and high >= axis[0]]
    for outcome in MARKERS:
        _add_effects(figure, [(name, v) for name, v in drawn if v.outcome is outcome], outcome)
    without = [(name, v) for name, v in ordered if v.effect is None]  # the rows at the bottom
    of_effects = {"y0": len(without) - 0.5, "y1": len(names) - 0.3}  # no line runs through the words below
    for x, line in ((0, {"color": BLACK, "width": 1}), (100 * minimum_effect, {"color": GREEN, "dash": "dash"})):
        figure.add_shape(type="line", x0=x, x1=x, line={"width": 1} | line, **of_effects)
    _add_words(figure, [(_row(name, v), f" {_unmeasured(v)}") for name, v in without], 0.0, "middle right")
    above = [(_row(name, v), "beyond this axis →") for name, v, low, _ in spans if low > axis[1]]
    below = [(_row(name, v), "← beyond this axis") for name, v, _, high in spans if high < axis[0]]
    _add_words(figure, above, axis[1], "middle left")
    _add_words(figure, below, axis[0], "middle right")
    figure.update_yaxes(categoryorder="array", categoryarray=names, range=[-0.7, len(names) - 0.3], showgrid=False)
    figure.update_xaxes(title=f"change of {judged}, % (dashed: {asked(minimum_effect)})", range=axis)
    rows = [
        {"arm": name.replace("<br>", " "), "effect [interval]": effect(v.effect), "verdict": sign(v)}
        for name, v in reversed(ordered)
    ]
    figure.update_layout(showlegend=True)
    told = _last_words(labelled)
    finding = _finding([one for one in ordered if one in told], judged, minimum_effect)
    lines = max((name.count("<br>") + 1 for name in names), default=1)
    return Chart(figure, finding, rows, 150 + max(34, LINE * lines + 8) * max(len(names), 2))


def _add_effects(figure: go.Figure, shown: Sequence[tuple[str, Verdict]], outcome: Outcome) -> None:
    """Add the effects of an outcome with their intervals, under their labels; nothing if there are none."""
    if not shown:
        return
    colour, symbol = MARKERS[outcome]
    verdicts = [v for _, v in shown]
    figure.add_scatter(
        x=[100 * (v.effect.ratio - 1) for v in verdicts],
        y=[_row(name, v) for name, v in shown],
        mode="markers",
        name=str(outcome),
        marker={"color": colour, "symbol": symbol, "size": 10, "line": {"width": 2}},
        error_x={
            "type": "data",
            "array": [100 * (v.effect.high - v.effect.ratio) for v in verdicts],
            "arrayminus": [100 * (v.effect.ratio - v.effect.low) for v in verdicts],
            "color": colour,
            "thickness": 2,
        },
        hoverinfo="skip",
    )


def _add_words(figure: go.Figure, rows: Sequence[tuple[str, str]], at: float, position: str) -> None:
    """Add words to rows in which no effect can be drawn."""
    figure.add_scatter(
        x=[at] * len(rows),
        y=[name for name, _ in rows],
        text=[words for _, words in rows],
        mode="text",
        textposition=position,
        showlegend=False,
        hoverinfo="skip",
    )


def _last_words(labelled: Sequence[tuple[str, Verdict]]) -> list[tuple[str, Verdict]]:
    """Return one verdict of each change: the last one, which is that of fresh pairs where there are any."""
    return list({(v.name, v.condition): (name, v) for name, v in labelled}.values())


def _finding(ordered: Sequence[tuple[str, Verdict]], judged: str, minimum_effect: float) -> str:
    """Return what a figure of effects shows, as a sentence that can be heard in its place."""
    supported = [(name, v) for name, v in reversed(ordered) if v.outcome is Outcome.SUPPORTED and v.effect]
    told = [(name, v) for name, v in supported if v.meaning is not Meaning.DIAGNOSTIC]
    if not told:
        return f"No change here was shown to bring {asked(minimum_effect)} {judged} or more."
    name, v = told[0]
    others = f", the largest of {len(told)} gains that were shown" if len(told) > 1 else ""
    return f"{name.replace('<br>', ' ')} brings {effect(v.effect)} {judged}{others}."


def matrix(measured: Sequence[Measured], rows_factor: str, columns_factor: str, baseline: Baseline) -> Chart | Table:
    """Draw the throughput of every combination of two factors' levels. A cell without a measurement says why."""
    if not measured:
        return Table([], empty=NO_COMBINATION)
    speed, judged = _judged(baseline)
    cells = _cells(measured, (rows_factor, columns_factor), speed, judged.removeprefix("useful "))
    ys, xs = (sorted({key[i] for key in cells}, key=_natural) for i in (0, 1))
    grid = [[cells.get((y, x), (None, "not measured")) for x in xs] for y in ys]
    extreme = max([abs(v) for row in grid for v, _ in row if v is not None] + [1.0])
    figure = go.Figure()
    every = [(i, j, *grid[i][j]) for i in range(len(ys)) for j in range(len(xs))]
    for i, j, value, _ in every:
        colour = "rgba(0,0,0,0)" if value is None else _shade(value / extreme)
        box = {"x0": j - 0.48, "x1": j + 0.48, "y0": i - 0.47, "y1": i + 0.47}
        figure.add_shape(type="rect", **box, fillcolor=colour, line={"color": GREY, "width": 1}, layer="below")
    figure.add_scatter(
        x=[xs[j] for _, j, _, _ in every],
        y=[ys[i] for i, _, _, _ in every],
        text=[text for _, _, _, text in every],
        textfont={"color": [BLACK if value is None else ON_COLOUR for _, _, value, _ in every]},
        mode="text",
        showlegend=False,
        hoverinfo="skip",
    )
    figure.update_xaxes(title=columns_factor, type="category", range=[-0.5, len(xs) - 0.5], showgrid=False)
    figure.update_yaxes(title=rows_factor, type="category", range=[-0.5, len(ys) - 0.5], showgrid=False)
    table = [
        {rows_factor: y, columns_factor: x, f"change, and {judged}": _on_one_line(grid[i][j][1])}
        for i, y in enumerate(ys)
        for j, x in enumerate(xs)
    ]
    best = max((m.verdict for m in measured if m.verdict.effect), key=lambda v: v.gain, default=None)
    if best is None:
        return Table([], empty=NOTHING_MEASURED)
    found = f"{best.name} shows the largest gain ({best.outcome}): {effect(best.effect)} {judged}."
    said = found if best.gain > 0 else f"No combination shows a gain in {judged}."
    return Chart(figure, said, table, max(280, 120 + 80 * len(ys)))


def _cells(
    measured: Sequence[Measured], factors: tuple[str, str], speed: float, short_unit: str
) -> dict[tuple[str, str], tuple[float | None, str]]:
    """Return the change in per cent and the text of each cell, by its row and column; None where nothing was measured.

    `speed` is that of the baseline. A cell has little room, so `short_unit` is a short name.
    """
    settings = measured[0].contrast.baseline.settings

    def position(m: Measured | None) -> tuple[str, str]:
        found = {f.name: level.value for f, level in m.contrast.levels} if m else {}
        row, column = (show(found.get(f, _current(f, settings))) for f in factors)
        return row, column

    cells: dict[tuple[str, str], tuple[float | None, str]] = {
        position(None): (0.0, f"baseline<br>{rate(speed)}<br>{short_unit}")
    }
    for m in measured:
        verdict = m.verdict
        if verdict.effect is None:
            cells[position(m)] = (None, NOT_REACHED if verdict.untried else str(verdict.status or verdict.outcome))
        else:
            there = rate(speed * verdict.effect.ratio)
            text = f"{effect(verdict.effect)}<br>{there}<br>{short_unit}"
            cells[position(m)] = (100 * (verdict.effect.ratio - 1), text)
    return cells


def _on_one_line(cell: str) -> str:
    """Return the text of a matrix's cell on one line: the change, then the throughput with its unit."""
    return cell.replace("<br>", ", ", 1).replace("<br>", " ")


def _judged(baseline: Baseline) -> tuple[float, str]:
    """Return the baseline's throughput in the judged unit, and the unit's name."""
    name, found = unit(baseline.facts.blocks), baseline.facts.throughput
    return found.samples_per_second if name == "samples/s" else found.useful_tokens_per_second, name


def memory(baseline: Baseline, measured: Sequence[Measured]) -> Chart | Table:
    """Draw the peak memory of every arm in GiB: the device's (allocated, reserved, in use), or else the host's."""
    trials = [("baseline", baseline.record.baseline)]
    trials += [(m.verdict.name, m.record.treatment) for m in measured if m.record]
    if len(trials) == 1:
        return Table([], empty=f"The peak of the baseline's memory is {size(trials[0][1].memory.peak)}.")
    kinds = {"allocated": "o", "reserved": "/", "device": ".", "host": ""}
    figure, colours = go.Figure(), {"allocated": BLUE, "reserved": SKY, "device": ORANGE, "host": GREY}
    names = [name for name, _ in reversed(trials)]
    on_device = any(t.memory.allocated is not None for _, t in trials)
    for kind in ("allocated", "reserved", "device") if on_device else ("host",):
        values = [getattr(t.memory, kind) for _, t in reversed(trials)]
        sizes = [None if v is None else v / 2**30 for v in values]
        add_bars(figure, names, sizes, colours[kind], marker_pattern_shape=kinds[kind], name=kind)
    limits = [t.memory.limit for _, t in trials if t.memory.limit]
    if limits and on_device:
        figure.add_vline(x=max(limits) / 2**30, line={"color": VERMILION, "dash": "dash"})
    figure.update_xaxes(title="peak memory, GiB" if on_device else "peak host memory, GiB", rangemode="tozero")
    figure.update_layout(showlegend=on_device)
    rows = [
        {"arm": name, **{k: size(getattr(t.memory, k)) for k in kinds}, "ended": str(t.status)} for name, t in trials
    ]
    own, (most, largest) = trials[0][1], max(trials, key=lambda one: one[1].memory.peak or 0)
    beside = f"; the baseline's is {size(own.memory.peak)}" if largest is not own else ""
    said = f"The peak of memory is largest with {most}: {size(largest.memory.peak)}{beside}."
    return Chart(figure, said, rows, 120 + 30 * len(names) * (3 if on_device else 1))


def _label(m: Measured) -> str:
    """Return the arm's name, with what it is and its condition below.

    Arms that the final choice measured in fresh pairs are marked.
    """
    name = "<br>".join(filter(None, (m.verdict.shown, m.verdict.as_limit, m.verdict.condition)))
    return f"{name}, in fresh pairs" if m.family == "final" else name


def _row(name: str, v: Verdict) -> str:
    """Return the label of a row: the arm, and its effect where there is one. Two changes begin a line each."""
    changes = BETWEEN.split(name) if len(name) > LONG else [name]
    divided = changes if len(changes) == 2 else [name]
    whole = {"break_long_words": False, "break_on_hyphens": False}
    lines = [line for part in "<br>".join(divided).split("<br>") for line in textwrap.wrap(part, LONG, **whole)]
    return "<br>".join([*lines, effect(v.effect)] if v.effect else lines)


def _readable(verdicts: Sequence[Verdict], minimum_effect: float) -> list[float]:
    """Return an axis range, in %, that shows the effects of changes to train with and the minimum effect.

    An interval far beyond them is cut off, and a limit far beyond them lies outside; their rows have the figures.
    """
    changes = [v.effect for v in verdicts if v.meaning is not Meaning.DIAGNOSTIC] or [v.effect for v in verdicts]
    widest = 3 * max([abs(e.ratio - 1) for e in changes] + [0.1])
    effects = [e for v in verdicts if (e := v.effect) in changes or abs(e.ratio - 1) <= widest]
    low = min([max(e.low - 1, -widest) for e in effects] + [0.0])
    high = max([min(e.high - 1, widest) for e in effects] + [0.1, minimum_effect])
    margin = 0.06 * (high - low)
    return [100 * (low - margin), 100 * (high + margin)]


def _shade(part: float) -> str:
    """Return the colour of a cell: from vermilion at -1 over white to sky blue at 1."""
    full = [int((VERMILION if part < 0 else SKY)[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(255 + abs(part) * (c - 255)):02X}" for c in full)


def _unmeasured(verdict: Verdict) -> str:
    """Return why there is no effect to draw, in words."""
    if verdict.status not in (None, Status.OK):
        return str(verdict.status)
    if verdict.untried:
        return NOT_REACHED
    refuted = verdict.bound and verdict.outcome is Outcome.REFUTED
    return "refuted by its bound, no trial" if refuted else str(verdict.outcome)


def _current(factor: str, settings: Settings) -> object:
    return CATALOGUE[factor].current(settings.run)


def _natural(text: str) -> tuple[bool, float, str]:
    number = text.replace(".", "", 1).isdigit()
    return not number, float(text) if number else 0.0, text
