"""The options that were open, each with what was measured of it, and a score that anyone can reckon again.

Up to five points each for the time it saves (and so the cost), for low risk (the memory it leaves free), and for how
little it changes in training; nothing is weighed by opinion. An option that was not measured has no score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slowstep.factors import Meaning
from slowstep.final.choice import Choice
from slowstep.investigation.findings import Measured
from slowstep.investigation.lab import Lab
from slowstep.judgement.projection import Projection, project
from slowstep.judgement.verdict import Verdict, best_levels
from slowstep.records import Memory
from slowstep.report.chart import Table
from slowstep.wording.words import hours, loss_change, money, share

POINTS = 5.0
MEANING = {Meaning.EXACT: 5.0, Meaning.NUMERICS: 3.0, Meaning.SEMANTICS: 1.0}
"""Points for what stays the same: everything, everything but rounding, little."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One way to train the job. Times in seconds."""

    name: str
    verdict: Verdict | None
    """None for the run as it is."""
    job: Projection | None
    filled: float | None
    """Share of the memory that its peak fills."""
    saved: float
    """Share of the time that it saves, of the job's where that is projected."""
    meaning: Meaning
    chosen: bool = False
    barred: bool = False
    """Whether the parameter file does not allow it, or the job would not end sooner with it."""

    @property
    def points(self) -> tuple[float, float, float]:
        """For time, for risk by the memory left (half of it where it is not known), for sameness."""
        left = 0.5 if self.filled is None else max(0.0, 1 - self.filled)
        return POINTS * max(0.0, self.saved), POINTS * left, MEANING[self.meaning]

    @property
    def score(self) -> float:
        """Their sum."""
        return sum(self.points)


def options(lab: Lab, choice: Choice) -> list[Option]:
    """The run as it is, the best supported level of each factor by itself, allowed or not, and what was chosen and
    confirmed; the fastest first."""
    before = lab.baseline.projection
    as_is = Option(
        name="as it is",
        verdict=None,
        job=before,
        filled=_filled(lab.baseline.record.baseline.memory),
        saved=0.0,
        meaning=Meaning.EXACT,
    )
    own = [m for m in choice.tested if not m.contrast.given and m.verdict.meaning is not Meaning.DIAGNOSTIC]
    allowed = {v.name for v in choice.candidates}
    best = {v.name for v in best_levels([m.verdict for m in own])} | allowed
    single = {m.verdict.name: m for m in (*own, *choice.allowed) if m.verdict.name in best}
    whole = {choice.chosen.verdict.name: choice.chosen} if choice.chosen else {}
    found = [_option(lab, before, m) for m in (single | whole).values() if m.record and m.verdict.effect]
    found = [
        replace(o, chosen=choice.adopted and o.name in whole, barred=o.name not in {as_is.name, *allowed, *whole})
        for o in (as_is, *found)
    ]
    return sorted(found, key=lambda o: -o.saved)


def option_table(found: Sequence[Option]) -> Table:
    """Time and cost of the job, memory, meaning and points of each option."""
    return Table(
        [
            {
                "option": o.name + " (chosen)" * o.chosen + " (not allowed, or not paying in this job)" * o.barred,
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
    after = project(m.contrast.treatment.settings, lab.evidence.noise, lab.evidence.events, m.record)
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
