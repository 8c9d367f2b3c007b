"""The figures of the arms. Each takes judgements and returns a chart; none measures or judges."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from slowstep.factors import CATALOGUE
from slowstep.factors.factor import show
from slowstep.investigation.results import Baseline, Measured
from slowstep.judgement.intervals import Interval
from slowstep.judgement.throughput import unit
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.records import Status
from slowstep.report.chart import BLACK, BLUE, GREEN, GREY, ORANGE, SKY, VERMILION, Chart
from slowstep.settings import Settings
from slowstep.wording.words import SIGNS, effect, size

MARKERS = {
    Outcome.SUPPORTED: (GREEN, "circle"),
    Outcome.REFUTED: (VERMILION, "x"),
    Outcome.INCONCLUSIVE: (GREY, "diamond-open"),
    Outcome.NOT_TESTABLE: (BLACK, "line-ns-open"),
}


def intervals(measured: Sequence[Measured], minimum_effect: float) -> Chart:
    """Draw every arm's effect with its interval, in the judged unit. Arms without a measurement keep their row."""
    ordered = sorted(measured, key=lambda m: m.verdict.effect.mean if m.verdict.effect else float("-inf"))
    names = [_label(m) for m in ordered]
    judged = unit([p.treatment for m in measured if m.record for p in m.record.pairs])
    figure = go.Figure()
    for outcome, (colour, symbol) in MARKERS.items():
        shown = [m for m in ordered if m.verdict.outcome is outcome and m.verdict.effect]
        if not shown:
            continue
        verdicts = [m.verdict for m in shown]
        effects = [100 * (v.effect.ratio - 1) for v in verdicts]
        figure.add_scatter(
            x=effects,
            y=[_label(m) for m in shown],
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
    figure.add_vline(x=0, line={"color": BLACK, "width": 1})
    figure.add_vline(x=100 * minimum_effect, line={"color": GREEN, "dash": "dash", "width": 1})
    figure.update_xaxes(range=_readable([m.verdict.effect for m in ordered if m.verdict.effect]))
    without = [m for m in ordered if m.verdict.effect is None]
    figure.add_scatter(
        x=[0] * len(without),
        y=[_label(m) for m in without],
        text=[f" {_unmeasured(m.verdict)}" for m in without],
        mode="text",
        textposition="middle right",
        textfont={"color": GREY},
        showlegend=False,
        hoverinfo="skip",
    )
    figure.update_yaxes(categoryorder="array", categoryarray=names, range=[-0.7, len(names) - 0.3])
    figure.update_xaxes(title=f"change of {judged}, % (dashed: minimum effect)")
    rows = [
        {"arm": _label(m, " "), "effect [interval]": effect(m.verdict.effect), "verdict": SIGNS[m.verdict.outcome]}
        for m in reversed(ordered)
    ]
    figure.update_layout(showlegend=True)
    return Chart(figure, f"Effect of every arm on {judged}, with its interval.", rows, 150 + 34 * max(len(names), 2))


def matrix(measured: Sequence[Measured], rows_factor: str, columns_factor: str, baseline: Baseline) -> Chart:
    """Draw the throughput of every combination of two factors' levels. A cell without a measurement says why."""
    settings = measured[0].contrast.baseline.settings if measured else None
    cells: dict[tuple[str, str], tuple[float | None, str]] = {}
    rate = baseline.facts.throughput.useful_tokens_per_second or baseline.facts.throughput.samples_per_second

    def position(m: Measured | None) -> tuple[str, str]:
        found = {f.name: level.value for f, level in m.contrast.levels} if m else {}
        row, column = (show(found.get(f, _current(f, settings))) for f in (rows_factor, columns_factor))
        return row, column

    cells[position(None)] = (0.0, f"baseline<br>{rate:,.0f}/s")
    for m in measured:
        verdict = m.verdict
        if verdict.effect is None:
            cells[position(m)] = (None, str(verdict.status or verdict.outcome))
        else:
            value = 100 * (verdict.effect.ratio - 1)
            half = 50 * (verdict.effect.high - verdict.effect.low)
            cells[position(m)] = (value, f"{value:+.0f} % ± {half:.0f}<br>{rate * verdict.effect.ratio:,.0f}/s")
    ys, xs = (sorted({key[i] for key in cells}, key=_natural) for i in (0, 1))
    grid = [[cells.get((y, x), (None, "not measured")) for x in xs] for y in ys]
    extreme = max([abs(v) for row in grid for v, _ in row if v is not None] + [1.0])
    figure = go.Figure(
        go.Heatmap(
            z=[[v for v, _ in row] for row in grid],
            x=xs,
            y=ys,
            zmin=-extreme,
            zmax=extreme,
            colorscale=[[0, VERMILION], [0.5, "#FFFFFF"], [1, SKY]],
            showscale=False,
            text=[[text for _, text in row] for row in grid],
            texttemplate="%{text}",
            textfont={"color": BLACK},
            xgap=3,
            ygap=3,
            hoverinfo="skip",
        )
    )
    for i, row in enumerate(grid):
        for j, (value, text) in enumerate(row):
            if value is None:  # plotly writes no text into a cell without a value
                figure.add_annotation(x=j, y=i, text=text, showarrow=False, font={"color": BLACK})
    figure.update_xaxes(title=columns_factor, type="category")
    figure.update_yaxes(title=rows_factor, type="category")
    table = [
        {rows_factor: y, columns_factor: x, "change of the judged throughput": grid[i][j][1].replace("<br>", ", ")}
        for i, y in enumerate(ys)
        for j, x in enumerate(xs)
    ]
    return Chart(
        figure,
        f"{rows_factor} by {columns_factor}: throughput against the baseline.",
        table,
        max(280, 120 + 80 * len(ys)),
    )


def memory(baseline: Baseline, measured: Sequence[Measured]) -> Chart:
    """Draw the peak memory of every arm in GiB: the device's (allocated, reserved, in use), or else the host's."""
    trials = [("baseline", baseline.record.baseline)]
    trials += [(m.verdict.name, m.record.treatment) for m in measured if m.record]
    kinds = {"allocated": "o", "reserved": "/", "device": ".", "host": ""}
    figure, colours = go.Figure(), {"allocated": BLUE, "reserved": SKY, "device": ORANGE, "host": GREY}
    names = [name for name, _ in reversed(trials)]
    on_device = any(t.memory.allocated is not None for _, t in trials)
    for kind in ("allocated", "reserved", "device") if on_device else ("host",):
        values = [getattr(t.memory, kind) for _, t in reversed(trials)]
        figure.add_bar(
            y=names,
            x=[None if v is None else v / 2**30 for v in values],
            name=kind,
            orientation="h",
            marker={"color": colours[kind], "pattern": {"shape": kinds[kind]}},
            hoverinfo="skip",
        )
    limits = [t.memory.limit for _, t in trials if t.memory.limit]
    if limits and on_device:
        figure.add_vline(x=max(limits) / 2**30, line={"color": VERMILION, "dash": "dash"})
    figure.update_xaxes(title="peak memory, GiB" if on_device else "peak host memory, GiB", rangemode="tozero")
    figure.update_layout(showlegend=on_device)
    rows = [
        {"arm": name, **{k: size(getattr(t.memory, k)) for k in kinds}, "ended": str(t.status)} for name, t in trials
    ]
    return Chart(figure, "Peak memory of every arm.", rows, 120 + 30 * len(names) * (3 if on_device else 1))


def _label(m: Measured, line_end: str = "<br>") -> str:
    """Return the arm's name with its condition below. Arms measured again for the final choice are marked."""
    name = line_end.join(filter(None, (m.verdict.name, m.verdict.condition)))
    return f"{name}, confirmed" if m.family == "final" else name


def _readable(effects: Sequence[Interval]) -> list[float]:
    """Return an axis range, in %, that shows the effects. An interval far beyond them is cut off; the table has it."""
    widest = 3 * max([abs(e.ratio - 1) for e in effects] + [0.1])
    low = min([max(e.low - 1, -widest) for e in effects] + [0.0])
    high = max([min(e.high - 1, widest) for e in effects] + [0.1])
    margin = 0.06 * (high - low)
    return [100 * (low - margin), 100 * (high + margin)]


def _unmeasured(verdict: Verdict) -> str:
    """Return why there is no effect to draw, in words."""
    if verdict.status not in (None, Status.OK):
        return str(verdict.status)
    refuted = verdict.bound and verdict.outcome is Outcome.REFUTED
    return "refuted by its bound, no trial" if refuted else str(verdict.outcome)


def _current(factor: str, settings: Settings | None) -> object:
    return CATALOGUE[factor].current(settings.run) if settings else ""


def _natural(text: str) -> tuple[bool, float, str]:
    number = text.replace(".", "", 1).isdigit()
    return not number, float(text) if number else 0.0, text
