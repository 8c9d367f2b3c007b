"""Trials whose epochs end where the program's own epochs end.

At first the epochs of a trial have no end. A program may count the batches of an epoch: it fills an array of so many
losses, or takes its learning rate from a table of so many steps. Such a program trains well by itself, and fails as
soon as a trial goes on beyond the epoch's end. So after such a failure all arms are launched anew with epochs that end.
What was measured before is forgotten, as those steps were of other epochs. A program that fails again fails by itself.
"""

from __future__ import annotations

from dataclasses import replace

from slowstep.factors import Arm
from slowstep.settings.epochs import with_epochs_that_end
from slowstep_probe.trial.messages import Failed


class EpochsHaveToEnd(Exception):
    """The end of what was measured with epochs without end. `failed` says how a trial failed."""

    def __init__(self, failed: Failed):
        super().__init__(failed.reason)
        self.failed = failed


class OwnEpochs:
    """The epochs of a pool's trials: without end at first, and as the program has them once that is needed."""

    def __init__(self) -> None:
        self.why = ""
        """How a trial failed beyond the end of its own epoch; empty as long as none has."""

    def may_help(self, failed: Failed) -> bool:
        """Return whether a trial that failed is to be launched anew with epochs that end."""
        return not self.why and failed.may_pass_in_own_epochs

    def need(self, failed: Failed) -> None:
        """Have epochs end from now on, because of this failure."""
        self.why = f"{failed.status}: {failed.reason}"

    def of(self, arm: Arm) -> Arm:
        """Return an arm as it is launched."""
        return replace(arm, settings=with_epochs_that_end(arm.settings, self.why)) if self.why else arm
