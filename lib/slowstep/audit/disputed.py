"""Comparisons that rest on figures which contradict each other: they count only if no matter which one is wrong."""

from __future__ import annotations

from slowstep.audit.equal_work import equal_work
from slowstep.audit.figures import Figure
from slowstep.audit.findings import times
from slowstep.audit.relations import CONSEQUENCE, TITLES
from slowstep.audit.run import ReportedRun


def gains_without(a: ReportedRun, b: ReportedRun, quantity: str | None = None) -> dict[str, Figure]:
    """Return how many times as fast `b` is without each figure that may be the wrong one.

    A figure is left out in both rows where both contradict themselves, as people measure all rows in the same way.
    """
    found = {}
    for wrong in dict.fromkeys((*a.open_figures, *b.open_figures)):
        gain, _ = equal_work(a.without(wrong), b.without(wrong), quantity)
        if gain and gain.bounded:
            found[wrong] = gain
    return found


def disputed(a: ReportedRun, b: ReportedRun, gain: Figure, quantity: str | None = None) -> str:
    """Return why a gain is in doubt, if it is another one without a figure that may be wrong; else an empty text."""
    for wrong, other in gains_without(a, b, quantity).items():
        if other.gap(gain) > CONSEQUENCE:
            rows = " and ".join(f"'{r.label}'" for r in (a, b) if wrong in r.open_figures)
            otherwise = f"without {TITLES[wrong]} it is {times(other.middle)}"
            return f"the figures of {rows} contradict each other, and {otherwise}"
    return ""
