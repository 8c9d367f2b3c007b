"""What a speed rests on: few steps, as those of a start, or a whole time that also holds other work than steps."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slowstep.audit.equal_work import WHOLE
from slowstep.audit.figures import shown
from slowstep.audit.relations import TITLES
from slowstep.audit.run import ReportedRun
from slowstep.text.numbers import percentage

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


BESIDE_STEPS = 0.25
"""The share of an epoch that is not in its steps, from which on it is worth a question."""

PARTS = (
    ("seconds_per_epoch", "steps_per_epoch", "seconds_per_step"),
    ("seconds", "steps", "seconds_per_step"),
    ("seconds_per_epoch", "samples_per_epoch", "seconds_per_sample"),
    ("seconds", "samples", "seconds_per_sample"),
    ("seconds_per_epoch", "tokens_per_epoch", "seconds_per_token"),
)
"""Whole times, each with what it is made up of and the time of one of them."""


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


def of_one_epoch(run: ReportedRun, counted: str) -> bool:
    """Return whether samples or steps may be those of one epoch of several, as the whole time is that of all epochs."""
    each = {"steps": "seconds_per_step", "samples": "seconds_per_sample"}.get(counted, "")
    parts = [run.solved.known.get(q) for q in (counted, each, "epochs", "seconds")]
    if None in parts or counted not in run.given or parts[2].low <= 1 or not all(p.bounded for p in parts):
        return False
    return abs((parts[0] * parts[1] * parts[2] / parts[3]).middle - 1) < BESIDE_STEPS


def beside_steps(run: ReportedRun) -> tuple[str, str]:
    """Return in words how much of a run's time is not in its steps or samples, and which of them; empty for little."""
    for whole, counted, each in PARTS:
        parts = [run.solved.known.get(q) for q in (whole, counted, each)]
        if None in parts or not all(p.bounded for p in parts) or run.projected or (run.packed and "sample" in each):
            continue
        rest = 1 - (parts[1] * parts[2] / parts[0]).high
        if rest > BESIDE_STEPS and not of_one_epoch(run, counted):
            time, what = "an epoch" if whole.endswith("epoch") else "the time", counted.removesuffix("_per_epoch")
            return f"{percentage(rest)} of {time} of '{run.label}' is not in its {parts[1]} {what}", what
    return "", ""
