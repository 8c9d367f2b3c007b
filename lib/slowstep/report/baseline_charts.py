"""The figures of the baseline: its time by part, its scatter, and the most that could be gained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from slowstep.investigation.results import Baseline
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.records import PHASES
from slowstep.report.chart import (
    BLUE,
    BROWN,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    WINE,
    YELLOW,
    Chart,
    Table,
    add_bars,
    text_on,
)
from slowstep.text.numbers import asked, percent, percentage
from slowstep.text.phases import PHASE_NAMES
from slowstep.text.sentences import capitalised
from slowstep.wording.words import duration, share, share_span

PHASE_COLOURS = (ORANGE, YELLOW, SKY, BLUE, WINE, GREEN, PURPLE, VERMILION, BROWN, GREY)
OUTLIER = 2.0
"""The multiple of the median step beyond which a step is counted as an outlier."""

DRAWN = 0.005
"""The share of the time from which on a phase is drawn."""

BAR_END = 200.0
"""The per cent at which the bar of a bound ends, so that a bound of a thousand leaves room for the others."""


def time_budget(baseline: Baseline) -> Chart:
    """Draw all of the wall time by part: the real job's if its size is known, else that of the measured steps."""
    shares = {p: baseline.facts.share(p) for p in PHASES}
    parts = {PHASE_NAMES[p]: s for p, s in shares.items()}
    whole = "a step"
    if baseline.projection:
        job = baseline.projection
        scale = job.parts["training steps"] / job.seconds
        parts = {name: s * scale for name, s in parts.items()}
        for name, seconds in job.parts.items():
            if name != "training steps":
                parts[name] = parts.get(name, 0.0) + seconds / job.seconds
        whole = "the real job"
    spans = {PHASE_NAMES[p]: share_span(baseline.facts.shares[p]) for p in PHASES}
    rows = [
        {"part": name, "share": share(s), "of a step [95 % interval]": spans.get(name, "")} for name, s in parts.items()
    ]
    figure = go.Figure()
    colours = dict(zip(PHASE_NAMES.values(), PHASE_COLOURS, strict=True))
    shown = {name: s for name, s in parts.items() if s >= 0.0005}
    ground = [colours.get(name, GREY) for name in shown]
    add_bars(figure, shown, [100 * s for s in shown.values()], ground, text=[*map(share, shown.values())])
    figure.update_yaxes(autorange="reversed")
    top = max(shown.values())
    figure.update_xaxes(title=f"share of the wall time of {whole}, %", range=[0, min(118 * top, 118)])
    total = sum(parts.values())
    largest = max(parts, key=parts.get)
    takes = f"{capitalised(largest)} takes {share(parts[largest])} of the wall time of {whole}"
    return Chart(
        figure,
        f"{takes}; the parts sum to {percentage(total)}.",
        rows,
        60 + 34 * len(shown),
    )


def add_phases(figure: go.Figure, sides: Mapping[str, Mapping[str, float]], named: float, **more: Any) -> None:
    """Add a bar for each side, made of its phases. Those that take the share `named` of the longest carry their name.

    Phases that no side has for half a per cent of that are left out. `more` holds other properties of plotly's bars.
    """
    whole = max(sum(side.values()) for side in sides.values())
    for phase, colour in zip(PHASES, PHASE_COLOURS, strict=True):
        parts, name = {side: times.get(phase, 0.0) for side, times in sides.items()}, PHASE_NAMES[phase]
        if max(parts.values()) >= DRAWN * whole:
            inside = {"textposition": "inside", "textfont": {"color": text_on(colour)}, "name": name}
            text = [name if value >= named * whole else "" for value in parts.values()]
            add_bars(figure, parts, parts.values(), colour, text=text, **inside | more)
    figure.update_layout(barmode="stack", showlegend=True)
    figure.update_yaxes(autorange="reversed")


def step_times(baseline: Baseline) -> Chart:
    """Draw every measured step of both sides of the A/A comparison, in the order of time."""
    figure, rows, outliers = go.Figure(), [], 0
    for side, name, colour, symbol in (
        ("baseline", "one side", BLUE, "circle"),
        ("treatment", "the other side", ORANGE, "x"),
    ):
        steps = [s for pair in baseline.record.pairs for s in getattr(pair, side).step_seconds]
        median = float(np.median(steps))
        outliers += sum(s > OUTLIER * median for s in steps)
        figure.add_scatter(
            y=[1e3 * s for s in steps],
            mode="markers",
            name=name,
            marker={"color": colour, "symbol": symbol, "size": 6},
            hovertemplate="step %{x}: %{y:.0f} ms<extra></extra>",
        )
        figure.add_hline(y=1e3 * median, line={"color": colour, "dash": "dash", "width": 1})
        rows.append(
            {
                "A/A side": name,
                "steps": len(steps),
                "median": duration(median),
                "fastest": duration(min(steps)),
                "slowest": duration(max(steps)),
                "spread (sd / mean)": share(float(np.std(steps) / np.mean(steps))),
            }
        )
    figure.update_xaxes(title="measured step")
    figure.update_yaxes(title="ms", rangemode="tozero")
    steps = "measured step" if outliers == 1 else "measured steps"
    return Chart(figure, f"{outliers or 'No'} {steps} took more than twice the median.", rows, 340)


def bounds(verdicts: Sequence[Verdict], minimum_effect: float) -> Chart | Table:
    """Draw the most that each factor could bring, known before any trial; a table where nothing limits any."""
    known = sorted((v for v in verdicts if v.bound), key=lambda v: v.bound.ratio)
    figure = go.Figure()
    for name, colour, shape, is_worth in (
        ("to be tried", BLUE, "", True),
        ("refuted by its bound", GREY, "/", False),
    ):
        chosen = [v for v in known if (v.outcome is not Outcome.REFUTED) is is_worth]
        most = [percent(v.bound.ratio) for v in chosen]
        names = [v.name for v in chosen]
        add_bars(figure, names, map(_bar, chosen), colour, marker_pattern_shape=shape, name=name, text=most)
    figure.update_yaxes(categoryorder="array", categoryarray=[v.name for v in known])
    figure.update_layout(showlegend=True)
    top = max(map(_bar, known), default=1.0)
    figure.add_vline(x=100 * minimum_effect, line={"color": GREEN, "dash": "dash", "width": 1})
    figure.update_xaxes(title="at most, % (dashed: minimum effect)", range=[0, 1.2 * max(top, 100 * minimum_effect)])
    rows = [
        {
            "change": v.name,
            "at most": percent(v.bound.ratio),
            "because": v.bound.why,
            "rests on": str(v.bound.evidence or ""),
            "refutes without a trial": "yes" if v.outcome is Outcome.REFUTED else _why_not(v, minimum_effect),
        }
        for v in reversed(known)
    ]
    rows += [
        {"change": v.name, "at most": "no bound", "because": "nothing that was measured limits it"}
        for v in verdicts
        if v.bound is None and v.outcome is not Outcome.NOT_TESTABLE
    ]
    cut = f" Bars end at {BAR_END:.0f} %." if known and 100 * (known[-1].bound.ratio - 1) > BAR_END else ""
    least = asked(minimum_effect)
    worth = sum(v.bound.ratio - 1 >= max(minimum_effect, v.least) for v in known)
    if not known:
        return Table(rows, empty="Nothing that was measured limits a change.")
    text = f"{worth} of {len(known)} changes with a bound could bring as much as counts ({least}).{cut}"
    return Chart(figure, text, rows, 130 + 30 * max(len(known), 1))


def _bar(v: Verdict) -> float:
    """Return the length of a bound's bar, in per cent. One of a loss has none, so that its label stays free."""
    return min(max(100 * (v.bound.ratio - 1), 0.0), BAR_END)


def _why_not(v: Verdict, minimum_effect: float) -> str:
    """Return why a bound does not refute, in words."""
    if v.bound.ratio - 1 >= max(minimum_effect, v.least):
        return "no, it leaves room for the minimum effect"
    if v.bound.suffices:
        return "no"
    return "no, too few steps were seen to exclude rare stalls" if v.bound.evidence else "no, it is not sure enough"
