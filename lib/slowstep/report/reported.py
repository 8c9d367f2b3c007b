"""Charts, tables and texts of the audit of reported figures."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import plotly.graph_objects as go

from slowstep.audit import Audit, FindingKind, Judged
from slowstep.audit.equal_work import read_from
from slowstep.audit.figures import Figure
from slowstep.audit.findings import NOTES, Judgement, times
from slowstep.audit.relations import TITLES
from slowstep.audit.run import BESIDE, ReportedRun
from slowstep.audit.terminal_lines import SIGNS, compared, headline
from slowstep.environment.home import ROOT
from slowstep.report.chart import BLACK, BLUE, GREEN, ORANGE, Chart, Table, Text
from slowstep.text.markdown import code, escape
from slowstep.text.sentences import sentence

ONLY_IF_GIVEN = (
    *("micro_batches_per_step", "minutes_per_epoch", "minutes", "seconds_per_sample", "seconds_per_token", "samples"),
    *("devices", "tokens_per_step", "samples_per_second_per_device", "tokens_per_second_per_device"),
    *("million_tokens_per_hour", "million_tokens_per_hour_per_device", "tokens_per_epoch"),
    *("forward_passes_per_step", "backward_passes_per_step"),
)
"""Units that say nothing beyond the others. They are shown only if figures were given in them."""

MOST_FAULTS = 5
"""The most faults that the conclusion names. All of them stand in their table."""

SPEEDS = {"steps_per_second": (ORANGE, "square"), "samples_per_second": (BLUE, "circle"), "full": (GREEN, "diamond")}
FULL = "tokens/s at full length"


def reported_rows(audit: Audit) -> Table:
    """List every row in every unit that its figures allow. A computed figure is in brackets, a bound with its sign."""
    given = {q for r in audit.runs for q in r.given}
    known = {q for r in audit.runs for q in r.solved.known} - {*ONLY_IF_GIVEN}
    units = [q for q in (*TITLES, *BESIDE) if q in given | known]
    lengths = any(r.tokens_at_full_length for r in audit.runs)
    return Table(
        [
            {
                "run": r.label + _mark(r, audit),
                **{({**TITLES, **BESIDE})[q]: _cell(r, q) for q in units},
                **({FULL: f"({r.tokens_at_full_length})" if r.tokens_at_full_length else ""} if lengths else {}),
            }
            for r in audit.runs
        ],
        empty="Nothing was reported.",
    ).turned


def reported_speeds(audit: Audit) -> Chart:
    """Draw each measured row's speed over that of the first one that can be true, in every unit.

    Where the marks of a row lie apart, the answer depends on the unit.
    """
    possible = [r for r in audit.runs if r.label not in audit.impossible]
    measured = [r for r in possible if not r.projected] or possible
    first = f"'{measured[0].label}'" if measured else "the first row"
    figure, rows = go.Figure(), []
    for unit, (colour, symbol) in SPEEDS.items():
        points = [(r, ratio) for r in measured if (ratio := _ratio(unit, measured[0], r))] if measured else []
        if not points:
            continue
        name = FULL if unit == "full" else TITLES[unit]
        figure.add_scatter(
            x=[f.middle for _, f in points],
            y=[r.label for r, _ in points],
            mode="markers",
            name=name,
            marker={"color": colour, "symbol": symbol, "size": 11, "line": {"width": 1, "color": BLACK}},
        )
        rows += [{"run": r.label, "unit": name, f"times as fast as {first}": f"{f.middle:.3g}"} for r, f in points]
    figure.add_vline(x=1, line={"color": BLACK, "width": 1})
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title=f"times as fast as {first}", rangemode="tozero")
    return Chart(figure, _fastest(rows), rows, height=140 + 34 * len(measured))


def _fastest(rows: Sequence[Mapping[str, str]]) -> str:
    """Return which run is the fastest in each unit in which several can be compared, as a sentence."""
    speeds = defaultdict[str, dict[str, float]](dict)
    for row in rows:
        speeds[row["unit"]][row["run"]] = float([*row.values()][-1])
    compared = {unit: of_runs for unit, of_runs in speeds.items() if len(of_runs) > 1}
    if not compared:
        return "No two runs can be compared."
    most = {unit: max(of_runs.values()) for unit, of_runs in compared.items()}
    best = {unit: [run for run, speed in of_runs.items() if speed == most[unit]] for unit, of_runs in compared.items()}
    alone = {unit: runs[0] for unit, runs in best.items() if len(runs) == 1}
    if len(alone) == len(compared) and len(set(alone.values())) == 1:
        return f"'{next(iter(alone.values()))}' is the fastest run in every unit."
    told = ", ".join(f"'{run}' by {unit}" for unit, run in alone.items())
    return f"The fastest run depends on the unit: {told}." if told else "No run is faster than all others."


def reported_claims(audit: Audit) -> Table:
    """List each claim with what the figures say about it."""
    return Table(
        [
            {
                "claim": c.claim.text,
                "verdict": SIGNS[c.judgement],
                "at equal work": f"{times(c.gain.middle)} ({c.unit})" if c.gain else "not known",
                "because": sentence(c.reason),
            }
            for c in audit.claims
        ],
        empty="No claim was given.",
    )


def reported_findings(audit: Audit) -> Table:
    """List everything that was found in rows and claims; slips without consequence come last."""
    return Table(
        [
            {"kind": str(f.kind) + (" (slip)" if f.small else ""), "where": f.where, "what": sentence(f.text)}
            for f in sorted(audit.everything, key=lambda f: (f.small, f.kind in NOTES))
        ],
        empty="Nothing was found: the figures agree with each other and with what is possible.",
    )


def reported_questions(audit: Audit) -> Text:
    """List the questions that must be answered to judge further."""
    asked = list(dict.fromkeys([*audit.questions, *(q for c in audit.claims for q in c.questions)]))
    return Text("\n".join(f"- {escape(sentence(q))}" for q in asked) or "Nothing is missing.")


def reported_conclusion(audit: Audit, experiment: Path | None) -> Text:
    """Write a paragraph on each claim, and what to do. `experiment` is the file of the experiment, if there is one."""
    if not audit.runs and not audit.findings:
        return Text(
            "**Nothing was reported.** Add a `reported` section to the parameter file (docs/reported-figures.md)."
        )
    parts = [f"**{headline(audit)}**", *(_claim(c) for c in audit.claims)]
    if not audit.claims:
        parts += [escape(f"✘ {f.where}: {sentence(f.text)}") for f in audit.faults[:MOST_FAULTS]]
        parts += [escape(sentence(text)) for text in compared(audit)]
        parts += [escape(sentence(f.text)) for f in audit.everything if f.kind is FindingKind.RANKING]
        parts.append("No claim was given to judge.")
    if experiment:
        place = shlex.quote(_seen_from_root(experiment))
        command = code(f"make diagnose PARAMS={shlex.quote(place)}")  # make's own shell reads the place once more
        parts.append(
            f"A controlled experiment on these claims is ready to run: {command}. The file stands beside this report."
        )
    return Text("\n\n".join(parts))


def _seen_from_root(path: Path) -> str:
    """Return a path as `make` takes it in the kit's folder: relative to that folder if it lies below it."""
    path, root = path.resolve(), ROOT.resolve()
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _claim(c: Judged) -> str:
    """Write what becomes of a claim, and why; of an undecided one also that its own unit counts other work."""
    trap = next((f.text for f in c.findings if f.kind is FindingKind.UNIT), "")
    why = sentence(c.reason)
    if trap and c.judgement is Judgement.UNDECIDED:
        why = f"{sentence(trap)} {sentence(c.reason.partition('; ')[2] or c.reason)}"
    return f"{SIGNS[c.judgement][0]} “{escape(c.claim.text)}”: {c.judgement}. {escape(why)}"


def _mark(run: ReportedRun, audit: Audit) -> str:
    if run.label in audit.impossible:
        return " (impossible)"
    if run.out_of_memory:
        return " (out of memory)"
    return " (expected)" if run.projected and "expected" not in run.label else ""


def _cell(run: ReportedRun, quantity: str) -> str:
    if quantity in run.given:
        return str(run.given[quantity])
    known = run.solved.known.get(quantity)
    if not known:
        return ""
    if known.bounded:
        return f"({known})"
    return f"({'≤' if known.high < math.inf else '≥'}\N{NO-BREAK SPACE}{known})"


def _ratio(unit: str, first: ReportedRun, run: ReportedRun) -> Figure | None:
    if unit != "full":
        return read_from(unit, first, run)
    a, b = first.tokens_at_full_length, run.tokens_at_full_length
    return b / a if a and b and a.low > 0 else None
