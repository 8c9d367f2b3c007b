"""The figures of the index: the job now and after, the time of a step before and after, and every hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import plotly.graph_objects as go

from slowstep.investigation.results import Decision
from slowstep.judgement.projection import Projection
from slowstep.judgement.verdict import Verdict, span
from slowstep.records import PHASES
from slowstep.report.arm_charts import effects
from slowstep.report.baseline_charts import add_phases
from slowstep.report.chart import GREEN, GREY, Chart, add_bars
from slowstep.report.overview import Overview
from slowstep.text.phases import PHASE_NAMES, phase_named
from slowstep.text.sentences import capitalised
from slowstep.wording.words import alone, cost, decimals_more, duration, hours, money, share

NOW, AFTER = "now", "with the changes"

OF_CHANGES = "with the changes, if it takes as long now as is expected"
"""The row of a table whose interval is that of the changes alone."""

UNITS = ((7200.0, 3600.0, "hours"), (120.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))
"""The length from which on a time is drawn in a unit, the seconds of that unit, and its name."""

SMALL = 0.06
"""The share of a step below which a part of it carries no text."""


def job(decision: Decision) -> Chart | None:
    """Draw the time of the whole job now and with the changes; None if it is not known.

    The interval drawn is of the changes alone: how long the job takes now moves both bars.
    """
    before, after = decision.before, decision.after
    if before is None or after is None:
        return None
    jobs, takes = {NOW: before, AFTER: after}, alone(after)
    drawn = [replace(before, low=before.seconds, high=before.seconds) if after.beside else before, takes]
    more = decimals_more(before, after)
    _, unit, name = next(u for u in UNITS if before.seconds >= u[0])
    figure = go.Figure()
    above, below = ([(p.high - p.seconds) / unit for p in drawn], [(p.seconds - p.low) / unit for p in drawn])
    ends = {"type": "data", "array": above, "arrayminus": below}
    text = [_told(p, before, more) for p in jobs.values()]
    add_bars(figure, jobs, [p.seconds / unit for p in jobs.values()], [GREY, GREEN], error_x=ends, text=text)
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title=f"{name} of the whole job", rangemode="tozero")
    rows = [
        {"the job": name, "time [interval]": hours(p, more=more), "cost [interval]": money(p)}
        for name, p in jobs.items()
    ]
    if after.beside is None:
        known = f"The job takes {hours(after, before, more)} with the changes, and {hours(before, more=more)} now."
        return Chart(figure, known, rows, 150)
    rows.append({"the job": OF_CHANGES, "time [interval]": hours(takes, more=more), "cost [interval]": money(takes)})
    low, high = (duration(x, before.seconds, more) for x in (before.low, before.high))
    known = (
        f"With the changes the job takes {hours(takes, before, more)} if it takes "
        f"{duration(before.seconds, more=more)} now. "
        f"It may take {low.split()[0]} to {high} now, and the time with the changes moves with it."
    )
    return Chart(figure, known, rows, 150)


def _told(p: Projection, before: Projection, more: int) -> str:
    return ", ".join(filter(None, (duration(p.seconds, before.seconds, more), cost(p))))


def step(found: Overview) -> Chart | None:
    """Draw where the time of a step goes, now and with the changes, over the same samples.

    If nothing is changed it is that of a step as it is, in per cent; None if that is not known either.
    """
    before, after = found.decision.step_before, found.decision.step_after
    if before and after:
        saved = 1 - sum(after.values()) / sum(before.values())
        takes, took = sum(after.values()), sum(before.values())
        said = (
            f"With the changes the same samples take {duration(takes, took)} in place of {duration(took)}, "
            f"{share(abs(saved))} {'less' if saved >= 0 else 'more'}."
        )
        adopted = found.decision.adopted
        if adopted and adopted.effect and adopted.effect.median:  # a few very long steps count here, and not there
            said = (
                f"{said[:-1]}, in all pairs together; the pair in the middle shows {span(adopted.effect)} throughput."
            )
        times = {name: {p: 1e3 * s for p, s in side.items()} for name, side in ((NOW, before), (AFTER, after))}
        return _stacked(times, "milliseconds, for the samples of a step", said, lambda ms: duration(ms / 1e3))
    if not found.shares:
        return None
    said = f"{capitalised(_shares_in_words(found))}."
    percent = {NOW: {p: 100 * s for p, s in found.shares.items()}}
    return _stacked(percent, "share of a step, %", said, lambda value: share(value / 100))


def _shares_in_words(found: Overview) -> str:
    """Return the shares of a step's largest phases, after that of the first cause."""
    ordered = sorted(found.shares.items(), key=lambda one: -one[1])
    named = next((cause.phase for cause in found.causes if found.shares.get(cause.phase)), ordered[0][0])
    first, *others = sorted(ordered, key=lambda one: one[0] != named)
    told = [f"{PHASE_NAMES[phase]} {share(of_step)}" for phase, of_step in others[:2] if of_step >= SMALL]
    return f"{phase_named(first[0])} takes {share(first[1])} of a step{', ' * bool(told)}{' and '.join(told)}"


def _stacked(sides: Mapping[str, Mapping[str, float]], title: str, said: str, shown: Callable[[float], str]) -> Chart:
    """Draw a bar for each side, made of its phases."""
    figure = go.Figure()
    add_phases(figure, sides, SMALL)
    figure.update_xaxes(title=title, rangemode="tozero")
    rows = [
        {"phase": PHASE_NAMES[p], **{name: shown(side.get(p, 0.0)) for name, side in sides.items()}}
        for p in PHASES
        if any(p in side for side in sides.values())
    ]
    return Chart(figure, said, rows, 100 + 35 * len(sides))


def hypotheses_chart(verdicts: Sequence[Verdict], minimum_effect: float) -> Chart | None:
    """Draw every hypothesis that was measured, with its interval; None if there is none."""
    measured = [v for v in verdicts if v.effect]
    return effects([(v.title_in_list, v) for v in measured], minimum_effect) if measured else None
