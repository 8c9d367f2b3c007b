"""Occasional events of a run, saving and evaluating: whether they happen, how often, and whether a trial meets them."""

from __future__ import annotations

import math

from slowstep.settings.run import Run

RARE = 20
"""An event that comes less often than once in so many steps is kept out of a trial's steps and measured on its own;
a block holds a few dozen steps, and would meet such an event by luck."""

EVENTS = {"save": "save", "evaluate": "eval"}
"""The events by their phase, and how the training arguments begin that set them."""


def happens(run: Run, event: str) -> bool:
    """Whether the run does it at all."""
    return strategy(run, event) != "no"


def is_rare(run: Run, event: str) -> bool:
    """Whether the run does it, and too rarely to meet it in a block."""
    steps = interval(run, event)
    often = strategy(run, event) == "steps" and isinstance(steps, int | float) and 1 <= steps <= RARE
    return happens(run, event) and not often


def occurrences(run: Run, event: str, steps: int) -> int:
    """How often a job of so many optimizer steps does it; Trainer also does it after the last step."""
    how = strategy(run, event)
    if how == "epoch":
        return math.ceil(run["job.epochs"] or 1)
    if how == "steps":
        every = interval(run, event) or steps
        every = every * steps if every < 1 else every
        return math.ceil(steps / every)
    return 0


def steps_between(run: Run, event: str, samples_per_step: float) -> float | None:
    """Optimizer steps from one to the next; None where the run never does it, or not before its unknown end."""
    how, every = strategy(run, event), interval(run, event)
    in_epoch = run["job.samples"] / samples_per_step if run["job.samples"] else None
    if how == "epoch":
        return in_epoch
    if how == "steps" and isinstance(every, int | float):
        if every >= 1:
            return float(every)
        return every * in_epoch * (run["job.epochs"] or 1) if in_epoch else None
    return None


def of_whole(run: Run, seen: int | None) -> float:
    """How many times an evaluation over `seen` samples the job's own is; 1 for an event without samples, a save."""
    return run["dataset.eval_samples"] / seen if seen else 1.0


def strategy(run: Run, event: str) -> str:
    """no, steps, epoch or best."""
    return str(run[f"{EVENTS[event]}_strategy"] or "no")


def interval(run: Run, event: str) -> object:
    """Steps from one to the next, or below 1 a share of the job's, where its strategy is steps."""
    return run[f"{EVENTS[event]}_steps"] or run["logging_steps"]
