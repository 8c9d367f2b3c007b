"""The options that were open, each with what was measured of it, and a score that anyone can reckon again.

Up to five points each for the time it saves, the memory it leaves, and how little it changes in training; nothing
is weighed by opinion. An option that was not measured has no score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slowstep.factors import Meaning
from slowstep.final.choice import Choice
from slowstep.investigation import Investigation
from slowstep.judgement.projection import Projection, project
from slowstep.judgement.verdict import Verdict
from slowstep.records import Memory
from slowstep.report.chart import Table
from slowstep.report.words import hours, loss_change, money, share
from slowstep.summary import Measured

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

    @property
    def points(self) -> tuple[float, float, float]:
        """For time, for memory left (half of it where it is not known), for sameness."""
        left = 0.5 if self.filled is None else max(0.0, 1 - self.filled)
        return POINTS * max(0.0, self.saved), POINTS * left, MEANING[self.meaning]

    @property
    def score(self) -> float:
        """Their sum."""
        return sum(self.points)


def options(inv: Investigation, choice: Choice) -> list[Option]:
    """The run as it is, every supported change by itself, and the combination; the highest score first."""
    before = inv.baseline.projection
    as_is = Option(
        name="as it is",
        verdict=None,
        job=before,
        filled=_filled(inv.baseline.record.baseline.memory),
        saved=0.0,
        meaning=Meaning.EXACT,
    )
    best = {v.name for v in choice.candidates}
    single = [m for m in choice.allowed if m.verdict.name in best]
    whole = [choice.chosen] if choice.chosen and choice.chosen.verdict.name not in best else []
    return sorted([as_is, *(_option(inv, before, m) for m in _measured([*single, *whole]))], key=lambda o: -o.score)


def option_table(found: Sequence[Option]) -> Table:
    """Time and cost of the job, memory, meaning and points of each option."""
    return Table(
        [
            {
                "option": o.name,
                "time of the job": hours(o.job) if o.job else "not projected",
                "cost": money(o.job) if o.job else "",
                "memory filled": share(o.filled),
                "class": str(o.meaning),
                "loss, first samples": loss_change(o.verdict.loss_change) if o.verdict else "",
                "points: time + memory + sameness": " + ".join(f"{p:.1f}" for p in o.points) + f" = {o.score:.1f}",
            }
            for o in found
        ]
    )


def _measured(candidates: Sequence[Measured]) -> list[Measured]:
    return [m for m in candidates if m.record and m.verdict.effect]


def _option(inv: Investigation, before: Projection | None, m: Measured) -> Option:
    after = project(m.contrast.treatment.settings, inv.noise, inv.events, m.record)
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
