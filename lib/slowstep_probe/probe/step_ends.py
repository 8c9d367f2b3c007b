"""What tells that a step of training has ended, and what steps are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from slowstep_probe.probe.learning_rates import LearningRates
from slowstep_probe.probe.own_updates import OwnUpdates
from slowstep_probe.probe.step_losses import StepLosses

UNSEEN = 128
"""Backward passes without any sign of an optimizer step, after which each of them is taken for one."""

WITHOUT_ASKING = 8
"""Optimizer steps, each after a backward pass, without a request for data, after which training is taken to draw from
no loader any more."""

USUAL = 1 / 4
"""The share of all steps from which on what they are made of is usual. The last one of an epoch may be shorter."""


class StepEnds:
    """Signs of a step's end, as they are seen, and what steps are made of.

    - An optimizer's step ends one. So does that of a GradScaler, also where it leaves the optimizer's out.
    - Loops that update their parameters by hand have no optimizer: there gradients that are dropped by `zero_grad`
      after a backward pass end a step.
    - Where nothing of this is ever seen, each backward pass ends a step: as soon as several passes in a row are seen to
      have other weights each and no gradients yet, in a program without an optimizer of PyTorch's, or after many
      passes.
    """

    def __init__(self) -> None:
        self.losses = StepLosses()
        self.rates = LearningRates()
        self._last = (0, 0)
        """Backward passes in the last optimizer step, and the batches that it took from a loader; passes within an
        optimizer's closure are one."""
        self._parts: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        """The steps so far by the number of either."""
        self._passes = 0
        """Such passes in the step under way."""
        self._met = 0
        """Such batches in the step under way."""
        self.place: torch.device | None = None
        """The device that the loss of the last step lies on."""
        self.updates = 0
        """Steps that an optimizer or dropped gradients have ended."""
        self.looks = 0
        """Passes without gradients so far, outside of other phases."""
        self.has_optimizer = False
        """True once the program has made an optimizer."""
        self.goes_back = False
        """True if a backward pass was made; gradients can also be asked for by themselves."""
        self._own_updates = OwnUpdates()
        self._by_updates = False
        """True if a step was ever ended by an optimizer or by dropped gradients."""
        self.by_passes = False
        """True if nothing ever ended a step, and each backward pass is taken for one."""
        self._since_asked = 0
        """Updates with gradients of their own since a loader was last asked for data."""
        self._unannounced = 0
        """Backward passes since a loader was asked or a model was called, either of which can begin a step."""

    @property
    def passes(self) -> int:
        """The backward passes in an optimizer step: the most that are usual, since an epoch may end in a short one."""
        return _most_usual(self._parts[0]) or self._last[0]

    @property
    def batches(self) -> int:
        """The batches that an optimizer step takes from a loader: the most that are usual."""
        return _most_usual(self._parts[1]) or self._last[1]

    def accumulated(self, from_loader: bool) -> int:
        """Return the micro-batches of an optimizer step. Several losses of one batch are none.

        `from_loader` says that training draws from a loader. Else its batches are not known, and each pass has one.
        """
        return max(1, min(self.passes, self.batches) if from_loader else self.passes)

    @property
    def begun(self) -> bool:
        """True if a backward pass was made, or a step ended."""
        return self.goes_back or self._by_updates

    @property
    def asks_no_loader(self) -> bool:
        """True if no loader was asked for so long that training draws from none any more."""
        return self._since_asked > WITHOUT_ASKING

    @property
    def are_unannounced(self) -> bool:
        """True if passes go on and nothing that could begin a step comes before them."""
        return self._unannounced > WITHOUT_ASKING

    def loader_asked(self) -> None:
        """Note that a loader was asked for data, which can begin a step."""
        self._since_asked = self._unannounced = 0

    def model_called(self) -> None:
        """Note that a model was called outside of an optimizer's closure, which can begin a step."""
        self._unannounced = 0

    def batch_taken(self) -> None:
        """Count a batch of the step under way, taken from a loader."""
        self._met += 1

    def backward_begins(self) -> None:
        """Note that training makes backward passes. Gradients that were asked for before it were none of its steps."""
        if not self.goes_back:
            self.losses.forget()
            self._passes = 0
            self.by_passes = False
        self.goes_back = True

    def passed(self, loss: Any, in_closure: bool, models: Sequence[torch.nn.Module] = ()) -> bool:
        """Count a backward pass that begins, and return whether it ends a step. Those within a closure are one.

        `loss` is what it begins with, and `models` are the modules that training calls.
        """
        self._unannounced += 1
        self._passes += not (in_closure and self._passes)
        self.losses.add(loss)
        if not self._by_updates and not self.by_passes:
            own = not self.has_optimizer and not in_closure and self._own_updates.pass_begins(models)
            self.by_passes = own or len(self.losses) > UNSEEN
        return self.by_passes

    def optimizer_made(self, optimizer: Any) -> None:
        """Note that the program has made an optimizer."""
        self.has_optimizer = True
        self.rates.made(optimizer)

    def updated(self, optimizer: Any = None) -> None:
        """Note that an optimizer has stepped; without one, that gradients were dropped which none has used."""
        if optimizer is not None:
            self.rates.used(optimizer)
        elif self.has_optimizer:
            self.rates.unused()
        self._by_updates, self.by_passes = True, False
        self.updates += 1
        self._since_asked += bool(self.losses)  # of several optimizers on the same gradients, the first

    def ended(self) -> bool:
        """End the step under way: its parts are those of the last one now.

        Returns False if no backward pass was made in it: another optimizer goes on with the gradients of the last one.
        """
        passes, has_passes = self._last[0], bool(self.losses)
        if has_passes:
            passes, self.place = self._passes, self.losses.step_ended()
            self._passes = 0
            self.rates.step_ended()
        else:
            self.rates.goes_on()
        self._last, self._met = (passes, max(1, self._met)), 0
        return has_passes

    def count(self) -> None:
        """Count the last step's parts, at the boundary behind it: several optimizers may have ended it one by one."""
        for parts, number in zip(self._parts, self._last, strict=True):
            parts[number] += 1


def _most_usual(parts: Counter[int]) -> int:
    """Return the largest number that is usual among those of all steps, if any is; 0 without steps."""
    usual = min(USUAL * parts.total(), max(parts.values(), default=0))
    return max((number for number, steps in parts.items() if steps >= usual), default=0)
