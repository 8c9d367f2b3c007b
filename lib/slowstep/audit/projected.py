"""Rows that were expected and never measured, compared with the measured rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations

from slowstep.audit.differences import changed
from slowstep.audit.equal_work import equal_work
from slowstep.audit.findings import Finding, FindingKind, times
from slowstep.audit.limits import room
from slowstep.audit.relations import CONSEQUENCE
from slowstep.audit.run import ReportedRun
from slowstep.factors import CATALOGUE
from slowstep.settings.reported import Claim


def expectation(claim: Claim, a: ReportedRun, b: ReportedRun, runs: Sequence[ReportedRun]) -> list[Finding]:
    """Find that nothing was measured here, and what the measured phases and the same change elsewhere say about it."""
    expected = [f"'{r.label}'" for r in (a, b) if r.projected]
    if not expected:
        return []
    text = f"the figures of {' and '.join(expected)} are an expectation; nothing was measured"
    most = None if a.projected else room(claim.factor, a, b, changed(a.settings, b.settings))
    if most and 0 < most.middle < math.inf:
        text += f", and what the changes don't act on leaves room for {times(most.middle)} as fast"
    note = Finding(kind=FindingKind.PROJECTED, where=claim.text, text=text)
    return [note, *_measured_otherwise(claim, a, b, [r for r in runs if not r.projected])]


def _measured_otherwise(claim: Claim, a: ReportedRun, b: ReportedRun, measured: Sequence[ReportedRun]) -> list[Finding]:
    """Find the same change of the same factor between two measured rows, if its effect differs."""
    factor, (hoped, unit) = CATALOGUE.get(claim.factor or ""), equal_work(a, b, claim.quantity)
    if factor is None or hoped is None:
        return []
    before, after = (factor.current(r.settings.run) for r in (a, b))
    for c, d in permutations(measured if before != after else (), 2):
        if (factor.current(c.settings.run), factor.current(d.settings.run)) != (before, after):
            continue
        known, same = equal_work(c, d, claim.quantity)
        if known and same == unit and known.gap(hoped) > CONSEQUENCE:
            text = (
                f"where the same change was measured ('{c.label}', '{d.label}') it is {times(known.middle)} as fast in "
                f"{unit}, and here {times(hoped.middle)} is expected"
            )
            return [Finding(kind=FindingKind.MEASURED, where=claim.text, text=text)]
    return []
