"""Chart and table of the profiled trials: their operators, and the time in which the device is idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from slowstep.records import Operator, ProfileRecord
from slowstep.report.chart import BLUE, ORANGE, Chart, Table, add_bars
from slowstep.wording.words import duration, share

SHOWN = 12
"""The number of operators in the chart."""

COLOURS = ((BLUE, ""), (ORANGE, "/"))
"""Colour and pattern of the first profile and of the second."""

Profiles = Mapping[str, ProfileRecord]
"""Profiles by the name of the profiled run: the baseline, the final configuration."""


def operators(profiles: Profiles) -> Chart | Table:
    """Draw the milliseconds a step of each operator, with the profiles side by side; a table if none was seen."""
    found = {name: _per_step(p) for name, p in profiles.items() if not p.failed}
    largest: dict[str, float] = {}
    for steps in found.values():
        for operator, ms in steps.items():
            largest[operator] = max(largest.get(operator, 0.0), ms)
    names = sorted(largest, key=lambda n: -largest[n])[:SHOWN]
    labels, figure = _labels(names), go.Figure()
    for (name, steps), (colour, pattern) in zip(found.items(), COLOURS, strict=False):
        times = [steps.get(n, 0.0) for n in names]
        add_bars(figure, labels.values(), times, colour, marker_pattern_shape=pattern, name=name)
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title="own time, ms a step, under the profiler")
    figure.update_layout(barmode="group")
    rows = [{"operator": n, **{name: f"{steps.get(n, 0.0):.2f} ms" for name, steps in found.items()}} for n in names]
    if not names:
        return Table([], empty="No operator was seen.")
    said = f"{names[0]} takes {largest[names[0]]:.3g} ms a step, more than any other operator."
    return Chart(figure, said, rows, 180 + 30 * len(names))


def device_idle(profiles: Profiles) -> Table:
    """List for each profile how much of the time nothing runs, in how many gaps, and where the trace is."""
    return Table(
        [
            {
                "of": name,
                "device": p.device,
                "a step, profiled": duration(p.seconds / p.steps),
                "no kernel runs" if p.device == "cuda" else "no operator runs": share(p.idle),
                "gaps a step, over 10 µs": f"{p.gaps_per_step:,.0f}",
                "seconds of them a step": duration(p.gap_seconds),
                "trace, for ui.perfetto.dev": f"traces/{p.trace}",
            }
            for name, p in profiles.items()
            if not p.failed
        ],
        empty="; ".join(f"The {name} could not be profiled: {p.failed}." for name, p in profiles.items()),
    )


def _per_step(p: ProfileRecord) -> dict[str, float]:
    return {operator.name: _milliseconds(operator, p) for operator in p.operators}


def _milliseconds(operator: Operator, p: ProfileRecord) -> float:
    return 1e3 * operator.seconds / p.steps


def _labels(names: Sequence[str]) -> dict[str, str]:
    """Return a short label for each name. Names that become the same one are numbered, since a label is a row."""
    labels: dict[str, str] = {}
    for name in names:
        alike = sum(_short(other) == _short(name) for other in labels)
        labels[name] = f"{_short(name)} ({alike + 1})" if alike else _short(name)
    return labels


def _short(name: str) -> str:
    """Shorten a name in the middle. Names of kernels are long C++ signatures that may differ only at their ends."""
    return name if len(name) <= 48 else f"{name[:23]}…{name[-24:]}"
