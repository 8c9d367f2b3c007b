"""Lightning's Trainer in a trial: it trains without end, and its schedules are made for the steps of the job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from slowstep_probe.by_identity import ByIdentity
from slowstep_probe.changing.configurations import ENDLESS
from slowstep_probe.changing.schedules import Schedules
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches
from slowstep_probe.ranks.rank import Rank

PACKAGES = ("lightning.pytorch", "pytorch_lightning")
"""The packages that Lightning comes in."""

TRAINERS = tuple(f"{package}.trainer.trainer" for package in PACKAGES)
"""The modules that hold Lightning's Trainer."""

WITHOUT_END = {"max_epochs": -1, "max_time": None} | ENDLESS
"""Training without end. The number of steps has to be finite."""

CONFIGURE = "_init_optimizers_and_lr_schedulers"
"""The function that has a module make its optimizers and schedules."""

EPOCHS = 1000
"""The epochs of a trainer that is given no end."""


class LightningEnds:
    """Lets Lightning's Trainer train without end, since it counts its epochs and steps itself.

    Where this process is one of several ranks, the trainer is given as many nodes, and devices on each, as there are
    ranks: it compares their product with the number of processes. While a module makes its optimizers and schedules,
    and where it asks for the number of steps, the trainer has the limits that the program gave it.
    """

    def __init__(self, schedules: Schedules, rank: Rank | None = None):
        several = {"devices": rank.local_size, "num_nodes": rank.size // rank.local_size} if rank else {}
        self._given, self._schedules = WITHOUT_END | several, schedules
        self._limits: ByIdentity[tuple[int, int]] = ByIdentity()
        """The most epochs and steps that the program gave a trainer, if it gave any; -1 for no limit."""
        self._told: ByIdentity[int] = ByIdentity()
        """The number of steps that a trainer told."""

    def attach(self, patches: Patches, late: LateImports) -> None:
        for package, trainers in zip(PACKAGES, TRAINERS, strict=True):
            late.on(trainers, lambda module: self._attach(module.Trainer, patches))
            late.on(
                f"{package}.core.optimizer",
                lambda it: hasattr(it, CONFIGURE) and patches.everywhere(it, CONFIGURE, self._configure),
            )

    def _attach(self, kind: type, patches: Patches) -> None:
        patches.around(kind, "__init__", self._made)
        told = vars(kind).get("estimated_stepping_batches")
        if isinstance(told, property):
            patches.replace(kind, "estimated_stepping_batches", property(lambda one: self._steps(told.fget, one)))

    def _made(self, original: Callable[..., None], trainer: Any, *args: Any, **kwargs: Any) -> None:
        original(trainer, *args, **kwargs | self._given)
        if (own := limits(kwargs)) != (-1, -1):
            self._limits[trainer] = own

    @contextmanager
    def _as_given(self, trainer: Any) -> Iterator[None]:
        """Let a trainer have its own limits while the block runs."""
        loop = trainer.fit_loop
        kept = loop.max_epochs, loop.epoch_loop.max_steps
        loop.max_epochs, loop.epoch_loop.max_steps = self._limits.get(trainer, kept)
        try:
            yield
        finally:
            loop.max_epochs, loop.epoch_loop.max_steps = kept

    def _steps(self, told: Callable[[Any], int], trainer: Any) -> int:
        """Return the steps of the job; those of the trial if the job has no end."""
        if trainer not in self._limits:
            return told(trainer)
        with self._as_given(trainer):
            self._told[trainer] = told(trainer)
        return self._told[trainer]

    def _configure(self, original: Callable[..., Any], module: Any) -> Any:
        """Make a module's optimizers and schedules, and hold the schedules that were made for a number of steps."""
        with self._as_given(module.trainer):
            made = original(module)
        for one in made[1] if module.trainer in self._told else ():
            if one.interval == "step":
                self._schedules.hold_after(one.scheduler, self._told[module.trainer])
        return made


def limits(given: Mapping[str, Any]) -> tuple[int, int]:
    """Return the most epochs and steps of a trainer by what it is given, as Lightning does (`_parse_loop_limits`)."""
    steps, epochs = given.get("max_steps", -1), given.get("max_epochs")
    if epochs is None:
        epochs = EPOCHS if steps == -1 and given.get("max_time") is None else -1
    return epochs, steps
