"""Learning-rate schedules in a trial: those of the job, which keep their last rate where the trial trains longer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch.optim.lr_scheduler import LRScheduler, OneCycleLR

from slowstep_probe.by_identity import ByIdentity
from slowstep_probe.changing.configurations import ENDLESS
from slowstep_probe.late_imports import LateImports
from slowstep_probe.looks import length_of
from slowstep_probe.patches import Patches

MAKERS = ("create_scheduler", "create_optimizer_and_scheduler")
"""The methods by which a Trainer makes its schedule. The second one is called by transformers 4 alone."""


class Schedules:
    """Has schedules made for the steps of the job, and holds them where those are over.

    - A Trainer computes its steps from `max_steps`, which trials have without end: a warm-up that is a share of them
      would never be over. So what makes its schedule is given the steps of the job.
    - Beyond those a schedule may raise an error (OneCycleLR), or compute with what it was not made for.

    `own_steps` returns the `max_steps` that TrainingArguments were given; -1 for none.
    """

    def __init__(self, own_steps: Callable[[Any], int]):
        self._own_steps = own_steps
        self._batches: ByIdentity[int] = ByIdentity()
        """The batches of an epoch of the loader that was made last, by the TrainingArguments of its Trainer."""
        self._steps: ByIdentity[int] = ByIdentity()
        """The steps that schedules were made for."""

    def attach(self, patches: Patches, late: LateImports) -> None:
        patches.of_subclasses(LRScheduler, {"step": self._step})
        of_trainer = dict.fromkeys(MAKERS, self._make) | {"get_train_dataloader": self._loader_made}
        warm_up = {"get_warmup_steps": self._warm}
        late.on("transformers.trainer", lambda it: patches.of_subclasses(it.Trainer, of_trainer))
        late.on("transformers.training_args", lambda it: patches.of_subclasses(it.TrainingArguments, warm_up))

    def hold_after(self, schedule: Any, steps: int) -> None:
        """Have a schedule keep the rate of the last of so many steps."""
        if isinstance(schedule, LRScheduler) and steps > 0:
            self._steps[schedule] = steps

    def _step(self, original: Callable[..., None], schedule: Any, *args: Any, **kwargs: Any) -> None:
        own = getattr(schedule, "total_steps", None) if isinstance(schedule, OneCycleLR) else None
        steps, epoch = self._steps.get(schedule, own), args[0] if args else kwargs.get("epoch")
        if steps is None or (schedule.last_epoch + 1 if epoch is None else epoch) < steps:
            original(schedule, *args, **kwargs)

    # -- transformers' Trainer --

    def _loader_made(self, original: Callable[..., Any], trainer: Any, *args: Any, **kwargs: Any) -> Any:
        loader = original(trainer, *args, **kwargs)
        self._batches[trainer.args] = length_of(loader) or 0
        return loader

    def _make(self, original: Callable[..., Any], trainer: Any, *args: Any, **kwargs: Any) -> Any:
        """Make a Trainer's schedule, by a method of it that takes `num_training_steps`, for the steps of the job."""
        name = "num_training_steps"
        if name in kwargs:
            kwargs = kwargs | {name: self._of_job(trainer.args, kwargs[name])}
        elif args:
            args = (self._of_job(trainer.args, args[0]), *args[1:])
        made = original(trainer, *args, **kwargs)
        if (steps := self._of_job(trainer.args, ENDLESS["max_steps"])) < ENDLESS["max_steps"]:
            self.hold_after(getattr(trainer, "lr_scheduler", None), steps)
        return made

    def _warm(self, original: Callable[..., int], arguments: Any, *args: Any, **kwargs: Any) -> int:
        """Return the steps of a warm-up, `get_warmup_steps(num_training_steps)`, by the steps of the job."""
        args = tuple(self._of_job(arguments, one) for one in args)
        return original(arguments, *args, **{name: self._of_job(arguments, one) for name, one in kwargs.items()})

    def _of_job(self, arguments: Any, steps: int) -> int:
        """Return the steps of the job in place of those without end, if they are known (Trainer.train)."""
        if steps != ENDLESS["max_steps"]:
            return steps
        if (own := self._own_steps(arguments)) > 0:
            return own
        of_epoch = math.ceil(self._batches.get(arguments, 0) / arguments.gradient_accumulation_steps)
        return math.ceil(arguments.num_train_epochs * of_epoch) or steps
