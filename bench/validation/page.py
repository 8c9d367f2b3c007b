"""outputs/validation/index.html: every figure of the validation, failures included."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import nbformat.v4 as nb4
import plotly.graph_objects as go

from bench.validation.results import ABOUT, machine
from slowstep.report.chart import BLACK, BLUE, GREEN, ORANGE, PURPLE, VERMILION, Chart, Table, Text
from slowstep.report.html import render

MARKS = {
    "slowstep": (BLUE, "circle"),
    "one run each": (ORANGE, "x"),
    "mean of 3 consecutive runs": (VERMILION, "square-open"),
    "best of 5 runs": (GREEN, "diamond-open"),
    "t-test on steps": (PURPLE, "triangle-up-open"),
    "Mann-Whitney on steps": (BLACK, "triangle-down-open"),
}


class Wanted(NamedTuple):
    """A figure of the table, and what it should be."""

    asked: str
    key: str
    """The key under which the figures hold it."""
    shape: str
    """How it is shown."""
    wanted: str
    holds: Callable[[float, float], bool] = lambda *_: True
    """Returns whether the figure is as it should be, given the figure and that of `of`."""
    of: str = ""
    """Another figure that this depends on: how many there are, or the upper end of its interval."""


WANTED = [
    Wanted(
        "false readings of the rule, worst regime",
        *("calibration.false_readings_max", "{:.1%}", "at most 5 %", lambda share, _: share <= 0.05),
    ),
    Wanted(
        'false "equal" at the margin of 3 %, worst regime',
        *("calibration.false_equal_max", "{:.1%}", "at most 5 %", lambda share, _: share <= 0.05),
    ),
    Wanted(
        "power at +10 %, worst regime",
        *("calibration.power_10pct_min", "{:.1%}", "at least 95 %", lambda share, _: share >= 0.95),
    ),
    Wanted(
        "coverage of a share's 95 % interval, worst regime",
        *("shares.coverage_min", "{:.1%}", "at least 93 %", lambda share, _: share >= 0.93),
    ),
    Wanted(
        "causes refuted by a bound, worst regime of rare stalls",
        *("shares.false_max", "{:.1%}", "at most 5 %", lambda share, _: share <= 0.05),
    ),
    Wanted(
        "identical arms told apart, of so many real comparisons",
        *("aa.false", "{} of {aa.comparisons}", "at most 1", lambda count, _: count <= 1),
    ),
    Wanted(
        "planted causes found",
        *("planted.correct", "{} of {planted.total}", "all but one", lambda count, total: count >= total - 1),
        of="planted.total",
    ),
    Wanted(
        "healthy runs left alone",
        *("healthy.correct", "{} of {healthy.total}", "all", lambda count, total: count >= total),
        of="healthy.total",
    ),
    Wanted(
        "jobs projected within 5 %, memory kept",
        *("prediction.within_5pct", "{} of {prediction.total}", "at least 8", lambda count, _: count >= 8),
    ),
    Wanted(
        "the same jobs, where freed memory goes back to the system",
        *("prediction.returned_within_5pct", "{} of {prediction.total}", "no goal"),
    ),
    Wanted(
        "cost of the probe",
        *("probe.cost", "{:+.2%} [{probe.cost_low:+.2%}, {probe.cost_high:+.2%}]", "below 1 %"),
        holds=lambda _, high: high < 0.01,
        of="probe.cost_high",
    ),
    Wanted(
        "host time that the probe adds to a step of a plain loop",
        "probe.added_to_plain_microseconds",
        "{:.0f} µs [{probe.added_to_plain_microseconds_low:.0f}, {probe.added_to_plain_microseconds_high:.0f}]",
        "below 200 µs",
        holds=lambda _, high: high < 200,
        of="probe.added_to_plain_microseconds_high",
    ),
    Wanted(
        "host time that it adds to a step of Trainer",
        "probe.added_to_trainer_microseconds",
        "{:.0f} µs [{probe.added_to_trainer_microseconds_low:.0f}, {probe.added_to_trainer_microseconds_high:.0f}]",
        "below 200 µs",
        holds=lambda _, high: high < 200,
        of="probe.added_to_trainer_microseconds_high",
    ),
    Wanted(
        "planted seconds that were put into another phase, worst case",
        *("probe.attribution_error_max", "{:.1%}", "at most 2 %", lambda share, _: share <= 0.02),
    ),
    Wanted(
        "training steps of a full grid of runs, over those of slowstep for the same verdicts",
        *("price.ratio", "{:.1f}", "at least 5", lambda ratio, _: ratio >= 5),
    ),
]


def value(figures: dict[str, Any], key: str) -> Any:
    """A figure by its dotted key."""
    for part in key.split("."):
        figures = figures[part]
    return figures


def summary(figures: dict[str, Any]) -> list[dict[str, str]]:
    """The table that README shows too."""
    rows = []
    for one in WANTED:
        shape, named = one.shape, re.findall(r"\{(\w+\.\w+)[:}]", one.shape)
        for name in named:
            shape = shape.replace("{" + name, "{" + name.replace(".", "_"))
        figure = value(figures, one.key)
        shown = shape.format(figure, **{name.replace(".", "_"): value(figures, name) for name in named})
        missed = "" if one.holds(figure, value(figures, one.of) if one.of else math.nan) else " (missed)"
        rows.append({"asked": one.asked, "measured": shown, "wanted": one.wanted + missed})
    return rows


def write(figures: dict[str, Any], where: str, target: Path) -> None:
    """Draw the page with the kit's own report template."""
    own, notebook = target.with_suffix(".ipynb"), nb4.new_notebook()
    notebook.cells = [_cell(part) for part in _parts(figures, where)]
    for i, cell in enumerate(notebook.cells):
        cell["id"] = str(i)
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(json.dumps(notebook), encoding="utf-8")
    render(own, target, "validation", "slowstep")


def _cell(part: str | Chart | Table | Text) -> Any:
    if isinstance(part, str):
        return nb4.new_markdown_cell(part)
    if isinstance(part, Chart):
        data = part._repr_mimebundle_()
    elif isinstance(part, Text):
        data = {"text/markdown": part.markdown}
    else:
        data = {"text/html": part._repr_html_()}
    tags = ["verdict"] if isinstance(part, Text) else []
    return nb4.new_code_cell("", outputs=[nb4.new_output("display_data", data=data)], metadata={"tags": tags})


def _measured(part: dict[str, Any]) -> str:
    return f"Measured {part['date']} at commit {part['commit']}, on {machine(part['machine'])}."


def _parts(f: dict[str, Any], where: str) -> list[str | Chart | Table | Text]:
    aa = f["aa"]
    return [
        "# Can the verdicts be trusted?",
        Text(_verdict(f)),
        Table(summary(f)),
        f"Measured on {where}",
        "## Calibration in simulation\n\nStep times of machines whose truth is known. Every rule is asked the same "
        "questions; the kit's is the library's own.",
        _measured(f["calibration"]),
        _dots(f["calibration"]["rows"], "false readings", "Identical arms told apart, by regime and rule.", 0.05),
        _dots(f["calibration"]["rows"], "power at +10%", "A true gain of 10 % found, by regime and rule.", 0.95),
        "Shares and bounds, from as many steps as the kit observes, where a wait is even, heavy-tailed or rare:",
        Table(_rounded(f["shares"]["rows"])),
        _measured(f["shares"]),
        Table(_rounded(f["calibration"]["rows"])),
        "## Identical arms, really trained\n\nEach arm against a second launch of itself, several times. The mean "
        f"ratio is {aa['mean_ratio']:.4f} [{aa['mean_ratio_low']:.4f}, {aa['mean_ratio_high']:.4f}].",
        _measured(aa),
        Table(aa["rows"]),
        "## Planted causes\n\nOne cause each, diagnosed blind.",
        Table([_shown(r) for r in f["planted"]["rows"]]),
        "The size of each cause, from a plain Trainer's runs with and without it:",
        Table([_size(r) for r in f["truth"]["rows"]]),
        "## Healthy runs\n\nNothing is wrong with these; a supported change would be a false alarm.",
        Table([_shown(r) for r in f["healthy"]["rows"]]),
        "## Whole jobs, projected and trained\n\nFrom the start of the interpreter to the end of training, with "
        "freed memory kept as in the trials and in final/train.py, and returned as in a script that does not ask.",
        Table([_job(r) for r in f["prediction"]["rows"]]),
        "## The probe\n\nWhat it costs, by interleaved pairs of a bare Trainer with and without it: "
        f"{f['probe']['cost']:+.2%} [{f['probe']['cost_low']:+.2%}, {f['probe']['cost_high']:+.2%}] over "
        f"{f['probe']['pairs']} pairs. To the host's time it adds, in the quickest tenth of the steps, "
        f"{f['probe']['added_to_plain_microseconds']:.0f} µs in a step of a plain loop, and "
        f"{f['probe']['added_to_trainer_microseconds']:.0f} µs in one of Trainer's (steps of a few milliseconds). "
        "And where it puts sleeps of known length:",
        Table(_rounded(f["probe"]["rows"])),
        _measured(f["probe"]),
        "## The price of a verdict\n\nOptimizer steps to judge every change listed in quick.yaml.",
        Table(
            [
                {"what": "the kit, everything included", "steps": f["price"]["steps_kit"]},
                {"what": f"a grid: {f['price']['arms']} arms, once each", "steps": f["price"]["steps_grid"]},
            ]
        ),
        _correctness(f["calibration"]["rows"]),
        _measured(f["price"]),
    ]


def _verdict(f: dict[str, Any]) -> str:
    wrong = [r["name"] for kind in ("planted", "healthy") for r in f[kind]["rows"] if not r["correct"]]
    far = [r["job"] for r in f["prediction"]["rows"] if not r["within"]]
    planted, healthy, aa = f["planted"], f["healthy"], f["aa"]
    parts = [
        f"**Of {planted['total']} planted causes {planted['correct']} were found, and of {healthy['total']} healthy "
        f"runs {healthy['correct']} were left alone.** {aa['false']} of {aa['comparisons']} identical arms told apart."
    ]
    if wrong:
        parts.append("Wrong in: " + ", ".join(wrong) + ".")
    if far:
        parts.append("Projected more than 5 % off: " + ", ".join(far) + ".")
    return "\n\n".join(parts)


def _gain(size: Sequence[float] | None) -> str:
    return "" if size is None else f"{size[0] - 1:+.1%} [{size[1] - 1:+.1%}, {size[2] - 1:+.1%}]"


def _size(r: dict[str, Any]) -> dict[str, Any]:
    name, gain = r["part"].replace("_", " "), _gain(_interval(r))
    return {"cause": name, "gain without it": gain, "pairs of runs": r["pairs"]} | _at(r)


def _interval(truth: dict[str, Any]) -> tuple[float, float, float]:
    return truth["ratio"], truth["low"], truth["high"]


def _shown(r: dict[str, Any]) -> dict[str, str]:
    return {
        "run": r["name"].replace("_", " "),
        "to be found": r["expected"],
        "first in the index": r["found"],
        "also supported": ", ".join(r["others"]),
        "gain stated": _gain(r["size"]),
        "gain measured without the kit": _gain(r["truth"] and _interval(r["truth"])),
        "right": ", ".join(_right(figures) for figures in (*r["earlier"], r)),
    } | _at(r)


def _right(figures: dict[str, Any]) -> str:
    """Say whether one diagnosis of a scenario was right, and what failed."""
    return "yes" if figures["correct"] else "NO" + "".join(f"; {x}" for x in figures["failed"])


def _job(r: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in r.items() if k not in (*ABOUT, "within", "within, returned")} | _at(r)


def _at(r: dict[str, Any]) -> dict[str, str]:
    return {"measured at": r["commit"], "on": r["machine"]["processor"]}


def _correctness(rows: Sequence[dict[str, Any]]) -> str:
    def worst(rule: str) -> str:
        own = [r for r in rows if r["rule"] == rule]
        false, power = max(r["false readings"] for r in own), min(r["power at +10%"] for r in own)
        return f"{false:.0%} false readings and {power:.0%} power at +10 %"

    return (
        f"In the worst regime of the calibration the grid's rule has {worst('one run each')}, the kit's has "
        f"{worst('slowstep')}."
    )


def _rounded(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()} for row in rows]


def _dots(rows: Sequence[dict[str, Any]], key: str, description: str, line: float) -> Chart:
    figure = go.Figure()
    for rule, (colour, symbol) in MARKS.items():
        own = [r for r in rows if r["rule"] == rule]
        figure.add_scatter(
            x=[100 * r[key] for r in own],
            y=[r["regime"] for r in own],
            mode="markers",
            name=rule,
            marker={"color": colour, "symbol": symbol, "size": 10, "line": {"width": 2}},
            hoverinfo="skip",
        )
    figure.add_vline(x=100 * line, line={"color": BLACK, "dash": "dash", "width": 1})
    figure.update_xaxes(title=f"{key}, % (dashed: {line:.0%})", range=[-3, 103])
    figure.update_yaxes(autorange="reversed")
    figure.update_layout(legend={"orientation": "h", "y": -0.15, "yanchor": "top"})
    shown = [{"regime": r["regime"], "rule": r["rule"], key: f"{r[key]:.1%}"} for r in rows]
    return Chart(figure, description, shown, 520)
