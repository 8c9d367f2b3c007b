"""Paces that rest on few steps: those of a start, with its compiling, its first allocations and its empty caches."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slowstep.audit.equal_work import WHOLE
from slowstep.audit.figures import shown
from slowstep.audit.relations import TITLES
from slowstep.audit.run import ReportedRun

FEW_STEPS = "a pace of few steps may be that of the start"

FEWEST = 20
"""The steps below which a pace may be that of the start. Compiling for another shape, the choice of kernels and the
allocator's growth take up to about ten, and the median of a later half needs as many beside them."""

SHORT = 60.0
"""The seconds below which such a pace says little. Ten steps of a minute each are no start."""

MEASURED = re.compile(
    r"(?:(?:n|num|number of|no\.?|#) ?)?"
    r"(?:(?:measured|timed|benchmark(?:ed)?|bench|profiled|averaged|recorded|total) )?(?:steps|iters|iterations)"
    r"(?: (?:measured|timed|averaged|benchmarked|profiled|recorded|run))?"
)
"""Headers of columns that say over how many steps each row was measured."""


@dataclass(frozen=True)
class StepsAndSeconds:
    """What a pace rests on."""

    steps: float
    seconds: float | None
    planned: float
    """All steps of the run as it was planned; 0 if that is not known."""

    def __str__(self) -> str:
        of_all = f" of {self.planned:,.0f}" if self.planned > self.steps else ""
        time = f" ({shown(round(self.seconds, 1))} s)" if self.seconds else ""
        return f"{self.steps:,.0f}{of_all} steps{time}"


def few_steps(a: ReportedRun, b: ReportedRun, unit: str) -> str:
    """Return a doubt if the speed of a row rests on few steps; empty where a `unit` is all the time of a run."""
    short = [(run, of) for run in (a, b) if (of := _measured(run)) and _is_short(of) and not run.repeats]
    if not short or any(unit.startswith(TITLES[whole]) for whole in WHOLE):
        return ""
    said = " and ".join(f"that of '{run.label}' rests on {of}" for run, of in short)
    return f"{FEW_STEPS}: {said}"


def question_of_steps(a: ReportedRun, b: ReportedRun) -> str:
    """Return the question whose answer decides a comparison that rests on few steps."""
    return f"How fast are '{a.label}' and '{b.label}' over some hundred steps, after their first ones?"


def _is_short(of: StepsAndSeconds) -> bool:
    return of.steps < FEWEST and (of.seconds is None or of.seconds < SHORT)


def _measured(run: ReportedRun) -> StepsAndSeconds | None:
    """Return what the pace of a row rests on, by its file, by a column or by its figures; None if nobody says it."""
    said = run.rests_on.get("steps") or next((v for name, v in run.beside.items() if _counts(name) and v > 0), None)
    if said is None and "steps" in run.given:
        said = run.given["steps"].middle
    if said is None:
        return None
    step = run.solved.known.get("seconds_per_step")
    seconds = run.rests_on.get("seconds") or (said * step.middle if step and step.bounded else None)
    return StepsAndSeconds(said, seconds, run.rests_on.get("planned", 0))


def _counts(header: str) -> bool:
    return bool(MEASURED.fullmatch(re.sub(r"[\s_-]+", " ", header).strip().lower()))
