"""The time of an epoch or a job that is not in its steps or samples: it also evaluates and saves, or had others."""

from __future__ import annotations

from slowstep.audit.run import ReportedRun
from slowstep.text.numbers import percentage

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
