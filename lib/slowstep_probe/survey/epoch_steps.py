"""The steps of a program's first epoch, held against those after it.

A trial that lets an epoch go on without end meets the first epoch's steps alone. It is another program's trial where a
later epoch trains other weights, with other optimizers or in other batches, or where what a program keeps of an epoch
makes its steps longer and longer until it is emptied.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from slowstep_probe.looks import looking, with_size
from slowstep_probe.probe.probe import Probe
from slowstep_probe.survey.survey import Survey

FEWEST = 5
"""The fewest steps of a first epoch, beside its first one, that tell of what kind its steps are."""

KINDS = 2
"""The most values that a count may have in the first epoch to tell of a kind: an epoch's last batch may be a short one,
and a discriminator be trained in every second step. What has more of them differs from step to step."""

AFTER = 2
"""The last steps, which tell of the later epochs. The first one after an epoch's end may hold what is done there, or a
batch that was asked for within the epoch."""

THIRD = 10
"""The fewest steps of a third of an epoch that tell whether steps grow."""

GROWTH, EACH = 1.75, 1.2
"""The least ratios of a phase in the last third of an epoch to the first, and in each third to the one before. Machines
that are shared were seen to drift by a third within seconds, while their steps scattered by as much."""

OF_STEP = 0.1
"""The least growth of a phase, as a part of a step of the first third."""

STRENGTH = 4.0
"""The least standard score of Mann and Whitney's U between the first third and the last: one in 30,000 by chance."""

SHORT_AGAIN = 0.25
"""The part of the last third's steps than which each later one has to be shorter. Their median has to be as short as
the first third's."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step that has ended."""

    epoch: int
    """The epochs that had ended by then."""
    counts: dict[str, int]
    """What it was made of: the `weights` that could be trained, its `updates` and its `samples`."""


class EpochSteps:
    """The steps of a survey, which notes each as it ends."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._before: tuple[int, int] | None = None
        """The updates and the samples before the last boundary between steps."""

    def step_ended(self, probe: Probe, survey: Survey) -> None:
        """Note the step that ends now. The first call is that before the first step."""
        before, self._before = self._before, (probe.steps.updates, probe.position)
        if before is None:
            return
        updates, samples = (now - then for now, then in zip(self._before, before, strict=True))
        counts = {"updates": updates, "samples": samples}
        if (weights := _trainable(survey.trained())) is not None:
            counts["weights"] = weights
        self.note(Step(epoch=probe.fetched.epochs, counts=counts))

    def note(self, step: Step) -> None:
        """Keep a step."""
        self._steps.append(step)

    @property
    def _first(self) -> list[Step]:
        """The steps of the first epoch but for the very first, in which a program may do what it does once."""
        return [step for step in self._steps if step.epoch == 0][1:]

    @property
    def _later(self) -> list[Step]:
        """The last steps, if they all come after the end of the first epoch and after a step that does; else none."""
        after = [step for step in self._steps if step.epoch > 0][1:]
        return after[-AFTER:] if len(after) >= AFTER else []

    def differences(self) -> dict[str, list[int]]:
        """Return what later epochs are made of otherwise than the first, by name, with the most of both.

        Empty where nothing differs in every step, or no epoch's end was met.
        """
        first, later = self._first, self._later
        if len(first) < FEWEST or not later:
            return {}
        found = {}
        for name in later[0].counts:
            before, now = ({step.counts.get(name, 0) for step in steps} for steps in (first, later))
            if len(before) <= KINDS and not before & now:
                found[name] = [max(before), max(now)]
        return found

    def grows(self, phases: Mapping[str, Sequence[float]]) -> bool:
        """Return whether a phase clearly becomes longer within the first epoch, and is short again after its end.

        `phases` holds the seconds of each phase in each step but for the very first.
        """
        size, later = len(self._first) // 3, len(self._later)
        timed = min(map(len, phases.values()), default=0)
        if size < THIRD or not later or timed < len(self._steps) - 1:
            return False
        end = len(self._steps) - 1
        step = median(sum(column[i] for column in phases.values()) for i in range(size))
        epochs = [(column[: len(self._first)], column[end - later : end]) for column in phases.values()]
        return any(_grows(seconds, after, OF_STEP * step) for seconds, after in epochs)

    def told(self, phases: Mapping[str, Sequence[float]]) -> dict[str, Any]:
        """Return what was found, as plain data. `phases` is as for `grows`."""
        return {"later_epochs": self.differences(), "grows_within_epoch": self.grows(phases)}


def _grows(seconds: Sequence[float], later: Sequence[float], least: float) -> bool:
    """Return whether the steps of an epoch become longer, by at least so many seconds, and the later ones are short."""
    size = len(seconds) // 3
    first, middle, last = seconds[:size], seconds[size:-size], seconds[-size:]
    at = [median(part) for part in (first, middle, last)]
    rises = at[2] >= GROWTH * at[0] and at[1] >= EACH * at[0] and at[2] >= EACH * at[1] and at[2] - at[0] >= least
    falls = max(later) < sorted(last)[int(SHORT_AGAIN * size)] and median(later) <= at[0]
    return rises and falls and _score(first, last) >= STRENGTH


@looking
def _trainable(weights: Iterable[torch.Tensor]) -> int:
    """Return the number of the weights that may have gradients, each counted once."""
    every = {id(weight): weight for weight in weights if weight.requires_grad}
    return sum(weight.numel() for weight in with_size(every.values()))


def _score(first: Sequence[float], last: Sequence[float]) -> float:
    """Return the standard score of Mann and Whitney's U: how surely `last` is longer than `first`."""
    larger = sum(b > a for a in first for b in last)
    n, m = len(first), len(last)
    return (larger - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
