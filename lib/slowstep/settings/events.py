"""Periodic events of a run, saving and evaluating: whether they happen, how often, and whether they are rare."""

from __future__ import annotations

import math

from slowstep.settings.schema import Settings

RARE = 20
"""The number of steps between two rare events, at least. A rare event is kept out of a trial's steps and measured on
its own, since a block holds a few dozen steps and would meet it only by luck."""

EVENTS = {"save": "save", "evaluate": "eval"}
"""The events by their phase, with the first word of the training arguments that set them."""


def happens(s: Settings, event: str) -> bool:
    """Return whether the event happens in the run at all."""
    return strategy(s, event) != "no"


def is_rare(s: Settings, event: str) -> bool:
    """Return whether the event happens, but too rarely to meet it in a block."""
    steps = interval(s, event)
    often = strategy(s, event) == "steps" and isinstance(steps, int | float) and 1 <= steps <= RARE
    return happens(s, event) and not often


def occurrences(s: Settings, event: str, steps: int) -> int:
    """Return how often the event happens in a job of so many optimizer steps, the one after its last step included."""
    how = strategy(s, event)
    if how == "epoch":
        return math.ceil(s.job.epochs or 1)
    if how == "steps":
        every = interval(s, event) or steps
        every = every * steps if every < 1 else every
        return math.ceil(steps / every)
    return 0


def steps_between(s: Settings, event: str, samples_per_step: float) -> float | None:
    """Return the optimizer steps from one event to the next; None where there is none, or where this is not known."""
    how, every = strategy(s, event), interval(s, event)
    in_epoch = s.job.samples / samples_per_step if s.job.samples else None
    if how == "epoch":
        return in_epoch
    if how == "steps" and isinstance(every, int | float):
        if every >= 1:
            return float(every)
        return every * in_epoch * (s.job.epochs or 1) if in_epoch else None
    return None


def of_whole(s: Settings, seen: int | None) -> float:
    """Return how many times as large as an evaluation of `seen` samples the job's own is; 1 for a save."""
    return s.dataset.eval_samples / seen if seen else 1.0


def strategy(s: Settings, event: str) -> str:
    """Return the event's strategy: no, steps, epoch or best."""
    return str(s.training(f"{EVENTS[event]}_strategy") or "no")


def interval(s: Settings, event: str) -> object:
    """Return the event's interval where its strategy is steps: in steps, or below 1 as a share of the job's steps."""
    return s.training(f"{EVENTS[event]}_steps") or s.training("logging_steps")
