"""The options that were open, each with its measured figures and a score that anyone can compute again.

An option gets up to five points for each of three things: the time that it saves (and so the cost), low risk (the
memory that it leaves free), and how little it changes in training. No opinion is in them. An option that was not
measured has no score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slowstep.factors import Meaning
from slowstep.final.choice import Choice
from slowstep.investigation.lab import Lab
from slowstep.investigation.results import Measured
from slowstep.judgement.projection import Projection
from slowstep.judgement.verdict import Verdict
from slowstep.judgement.verdicts_together import best_levels, best_together
from slowstep.records import Memory
from slowstep.report.chart import Table
from slowstep.wording.words import hours, loss_change, money, share

POINTS = 5.0
MEANING = {Meaning.EXACT: 5.0, Meaning.NUMERICS: 3.0, Meaning.SEMANTICS: 1.0}
"""Points for what stays the same in training: everything, everything but rounding, little."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """A way to train the job."""

    name: str
    verdict: Verdict | None
    """The verdict on its change; None for the run as it is."""
    job: Projection | None
    filled: float | None
    """Share of the memory, 0 to 1, that its peak fills; None if not known."""
    saved: float
    """Share of the time, up to 1, that it saves: of the job's where that is projected, else of a step's."""
    meaning: Meaning
    chosen: bool = False
    barred: bool = False
    """True if the parameter file does not allow it, or if the job would not end sooner with it."""

    @property
    def shown(self) -> str:
        """Return the change as its reader would write it."""
        return self.verdict.shown if self.verdict else self.name

    @property
    def points(self) -> tuple[float, float, float]:
        """Return the points for time, for low risk and for little change. Memory that is not known counts as half."""
        left = 0.5 if self.filled is None else max(0.0, 1 - self.filled)
        return POINTS * max(0.0, self.saved), POINTS * left, MEANING[self.meaning]

    @property
    def score(self) -> float:
        """Return the sum of the points."""
        return sum(self.points)


def options(lab: Lab, choice: Choice) -> list[Option]:
    """Return the options, the fastest first.

    They are the run as it is, the best supported level of each factor by itself and the best of several together,
    allowed or not, and the confirmed choice.
    """
    before = lab.baseline.projection
    as_is = Option(
        name="as it is",
        verdict=None,
        job=before,
        filled=_filled(lab.baseline.record.baseline.memory),
        saved=0.0,
        meaning=Meaning.EXACT,
    )
    own = [m for m in choice.tested if not m.contrast.held_constant and m.verdict.meaning is not Meaning.DIAGNOSTIC]
    allowed = {v.name for v in choice.candidates}
    verdicts = [m.verdict for m in own]
    best = {v.name for v in (*best_levels(verdicts), *best_together(verdicts))} | allowed
    single = {m.verdict.name: m for m in (*own, *choice.allowed) if m.verdict.name in best}
    open_ones = {m.verdict.name for m in choice.allowed}
    whole = {choice.chosen.verdict.name: choice.chosen} if choice.chosen else {}
    found = [_option(lab, before, m) for m in (single | whole).values() if m.record and m.verdict.effect]
    found = [
        replace(o, chosen=choice.adopted and o.name in whole, barred=o.name not in {as_is.name, *open_ones, *whole})
        for o in (as_is, *found)
    ]
    return sorted(found, key=lambda o: -o.saved)


def option_table(found: Sequence[Option]) -> Table:
    """List time and cost of the job, memory, meaning and points of each option."""
    return Table(
        [
            {
                "option": o.shown + " (chosen)" * o.chosen + " (not allowed, or not paying in this job)" * o.barred,
                "time of the job": hours(o.job) if o.job else "not projected",
                "cost": money(o.job) if o.job else "",
                "risk: memory filled": share(o.filled),
                "change: class": str(o.meaning),
                "loss, first samples": loss_change(o.verdict.loss_change) if o.verdict else "",
                "points: time and cost + risk + change": " + ".join(f"{p:.1f}" for p in o.points) + f" = {o.score:.1f}",
            }
            for o in found
        ]
    )


def _option(lab: Lab, before: Projection | None, m: Measured) -> Option:
    after = lab.evidence.projected(m)
    saved = 1 - after.seconds / before.seconds if before and after else 1 - 1 / m.verdict.effect.ratio
    return Option(
        name=m.verdict.name,
        verdict=m.verdict,
        job=after,
        filled=_filled(m.record.treatment.memory),
        saved=saved,
        meaning=m.verdict.meaning,
    )


def _filled(memory: Memory) -> float | None:
    return None if memory.peak is None or not memory.limit else memory.peak / memory.limit
