"""Speed-ups that a table states and that only a unit of other work bears out: half the length in samples a second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slowstep.audit.claims import judge
from slowstep.audit.equal_work import equal_work, read_from
from slowstep.audit.findings import Finding, FindingKind, Judgement, times
from slowstep.audit.relations import CONSEQUENCE, TITLES
from slowstep.audit.run import STATED, ReportedRun, same_devices
from slowstep.audit.stated_ratios import with_references
from slowstep.settings.reported import Claim

SPEED_UP = STATED[0]

COUNTS_LESS = ("samples_per_second", "steps_per_second")
"""Units that may count other work than the one that two rows are compared in."""


def in_other_units(runs: Sequence[ReportedRun]) -> list[Finding]:
    """Find each stated speed-up that is one of samples or steps alone, where a claim of that size is contradicted.

    Where the figures leave open which unit counts equal work, as with padding, nothing is found.
    """
    return [f for run, references in with_references(runs, SPEED_UP) for f in _in_other_unit(run, references, runs)]


def _in_other_unit(
    run: ReportedRun, references: Sequence[ReportedRun], runs: Sequence[ReportedRun]
) -> Iterator[Finding]:
    said = run.given[SPEED_UP]
    beside = [(r, *equal_work(r, run)) for r in references if same_devices(r, run)]
    if len(beside) < len(references) or any(gain is None or gain.gap(said) <= CONSEQUENCE for _, gain, _ in beside):
        return
    for reference, gain, unit in beside:
        for quantity in COUNTS_LESS:
            read = read_from(quantity, reference, run)
            if TITLES[quantity] == unit or read is None or read.gap(said) > CONSEQUENCE:
                continue
            claim = Claim(
                text=run.label, baseline=reference.label, treatment=run.label, speed_up=str(said), quantity=quantity
            )
            judged = judge(claim, runs)
            trapped = any(f.kind is FindingKind.UNIT for f in judged.findings)
            if trapped and judged.judgement is Judgement.CONTRADICTED:
                text = (
                    f"the speed-up is given as {said}, which it is in {TITLES[quantity]} beside '{reference.label}'; "
                    f"in {unit}, which counts equal work, it is {times(gain.middle)}"
                )
                yield Finding(kind=FindingKind.UNIT, where=run.label, text=text)
                return
