"""Periodic events of a run, saving and evaluating: whether they happen, how often, and whether they are rare."""

from __future__ import annotations

import math

from slowstep.settings.run import Run
from slowstep.settings.settings import Settings

RARE = 20
"""A periodic event is rare if more steps than this lie between two of them. It is then kept out of a trial's steps and
measured on its own, since a block holds a few dozen steps and would meet it only by luck."""

EVENTS = {"save": "save", "evaluate": "eval"}
"""The events by their phase, with the first word of the training arguments that set them."""


LOOKING = ("reduce_lr_on_plateau", "greedy")
"""The schedules of the learning rate that look at each evaluation."""


def schedule_looks(run: Run) -> bool:
    """Return whether the run's schedule of the learning rate looks at its evaluations."""
    return str(run["lr_scheduler_type"]).rpartition(".")[2].lower() in LOOKING


def happens(run: Run, event: str) -> bool:
    """Return whether the event happens in the run at all."""
    return strategy(run, event) != "no"


def is_rare(run: Run, event: str) -> bool:
    """Return whether the event happens, but too rarely to meet it in a block."""
    steps = interval(run, event)
    often = strategy(run, event) == "steps" and isinstance(steps, int | float) and 1 <= steps <= RARE
    return happens(run, event) and not often


def not_made_to_happen(settings: Settings, event: str) -> str:
    """Return why trials of a command can't be made to do a periodic event, as a clause; empty if they can."""
    run = settings.run
    if settings.command is None:
        return ""
    if "arguments" not in (run.objects or ()):
        return "only a Trainer can be made to do it"
    if not settings.command.protected:
        return "unprotected trials don't make it happen"
    if event == "evaluate" and not run["dataset.eval_samples"]:
        return "the length of the data set that is evaluated is not known"
    return ""


def occurrences(run: Run, event: str, steps: int) -> int:
    """Return how often the event happens in a job of so many optimizer steps, the one after its last step included."""
    how = strategy(run, event)
    if how == "epoch":
        return math.ceil(run["job.epochs"] or 1)
    if how == "steps":
        every = interval(run, event) or steps
        every = every * steps if every < 1 else every
        return math.ceil(steps / every)
    return 0


def steps_between(run: Run, event: str, samples_per_step: float) -> float | None:
    """Return the optimizer steps from one event to the next; None where there is none, or where this is not known."""
    how, every = strategy(run, event), interval(run, event)
    in_epoch = run["job.samples"] / samples_per_step if run["job.samples"] else None
    if how == "epoch":
        return in_epoch
    if how == "steps" and isinstance(every, int | float):
        if every >= 1:
            return float(every)
        return every * in_epoch * (run["job.epochs"] or 1) if in_epoch else None
    return None


def of_whole(run: Run, seconds: float, seen: int | None, fixed: float) -> float:
    """Return the seconds of the job's own evaluation, if an evaluation of `seen` samples takes `seconds`.

    Of these the `fixed` ones do not grow with the samples. A save, which sees no samples, takes what it took.
    """
    whole = run["dataset.eval_samples"]
    return fixed + (seconds - fixed) * whole / seen if whole and seen else seconds


def strategy(run: Run, event: str) -> str:
    """Return the event's strategy: no, steps, epoch or best."""
    return str(run[f"{EVENTS[event]}_strategy"] or "no")


def interval(run: Run, event: str) -> object:
    """Return the event's interval where its strategy is steps: in steps, or below 1 as a share of the job's steps."""
    return run[f"{EVENTS[event]}_steps"] or run["logging_steps"]
