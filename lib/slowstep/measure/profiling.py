"""Some steps of an arm under torch.profiler, in a trial that is ended afterwards."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

from slowstep.factors import Arm
from slowstep.judgement.operators import ENOUGH_STEPS
from slowstep.launch.trial_process import NoTimeLeft, TrialEnded
from slowstep.measure.live_trial import TIMEOUT_FACTOR, LiveTrial
from slowstep.measure.measurer import LOOKED_AT_SECONDS, NO_TIME
from slowstep.measure.pool import TrialPool
from slowstep.records import ProfileRecord, Status, identity
from slowstep_probe.profiled import no_profile
from slowstep_probe.trial.messages import Failed, Profile

PROFILED_STEPS, PROFILED_SECONDS, FEWEST_PROFILED = 5, 1.0, ENOUGH_STEPS
"""The most profiled steps, enough to see what a step is made of, and the seconds beyond which there are fewer of them,
down to the fewest whose median one disturbed step does not move.

A second of training by many small operators is hundreds of thousands of events, which take half a minute to read and
make a trace too large to look at: 114,000 a step of a 7B by QLoRA on an H100.
"""

MOST_LOOKS = 200
"""The most steps in which the profiled trial's stack is looked at (`LOOKED_AT_SECONDS`)."""

LATE_LOOKS_SECONDS = 2.0
"""The seconds of training in which it is looked at where no time is left."""

LATE_SECONDS = 20.0
"""The seconds that training as far as the steps to be looked at may take, even if they are not left."""


class Profiling:
    """A profile of an arm under way, of steps that come after `start` samples if there is time for that."""

    def __init__(self, pool: TrialPool, arm: Arm, start: int, deadline: float):
        self.pool, self.arm, self.deadline = pool, arm, deadline
        self._start = start
        self._key = identity(arm.determinants())
        self._goes_on = self._key in pool.live
        """True as long as the trial is one that lived before, which goes on."""
        if not self._goes_on:
            self._key = identity(arm.determinants(), "profiled")
        self._most_looks = MOST_LOOKS

    def run(self, trace: Path) -> ProfileRecord:
        """Return the profile, with its trace in the file `trace`; an empty record with the reason if that fails.

        A trial that lives goes on, and where none does, one is launched. If the one that lived fails, a new one is
        looked at from its first steps on.
        """
        self.pool.keep_only({self._key})
        while True:
            try:
                return self._profile(self.pool.launch(self.arm, self._key), trace)
            except NoTimeLeft:
                return not_profiled(self.arm, NO_TIME)
            except TrialEnded as ended:
                if not self._tries_again_after(ended.failed):
                    return not_profiled(self.arm, str(ended))
            finally:
                self.pool.keep_only(set())

    def _profile(self, trial: LiveTrial, trace: Path) -> ProfileRecord:
        """Look at steps of a trial; of its next ones if those asked for would take much longer than is left."""
        ahead = (self._start - trial.soonest) / trial.step_samples * trial.step_seconds
        if ahead > max(LATE_SECONDS, self.deadline - time.monotonic()):
            self._start = 0
        trial.catch_up(self._start)
        steps = max(FEWEST_PROFILED, min(round(PROFILED_SECONDS / trial.step_seconds), PROFILED_STEPS))
        if time.monotonic() > self.deadline:  # rare and long steps, which may hold most of the time, still count
            late_looks = round(LATE_LOOKS_SECONDS / trial.step_seconds)
            self._most_looks = min(self._most_looks, max(steps, late_looks))
        looks = max(steps, min(round(LOOKED_AT_SECONDS / trial.step_seconds), self._most_looks))
        written, trained = trial.process.folder / trace.name, round(trial.soonest)
        request = Profile(steps=steps, trace=str(written), looks=looks)
        expected = (request.looks + request.after_looks) * trial.step_seconds
        timeout = max(self.pool.budget.startup_timeout_seconds, TIMEOUT_FACTOR * expected)
        asked = time.monotonic()
        record = trial.process.ask(request, timeout).record
        trace.parent.mkdir(parents=True, exist_ok=True)
        if not record.failed:
            shutil.move(written, trace)
        took = time.monotonic() - asked
        return replace(record, arm=identity(self.arm.determinants()), start=self._start, trained=trained, took=took)

    def _tries_again_after(self, failed: Failed) -> bool:
        """Return whether a new trial is profiled after one that `failed`, and prepare that."""
        if self.pool.own_epochs.may_help(failed):
            self.pool.let_epochs_end(failed)
            return True
        if self._goes_on or self._start:
            self._goes_on, self._start = False, 0  # the first steps are better than none
            return True
        if failed.status is Status.ENDED and self._most_looks > PROFILED_STEPS:
            self._most_looks //= 4  # its training is too short for so many
            return True
        return False


def not_profiled(arm: Arm, why: str) -> ProfileRecord:
    """Return the empty record of a profile of `arm` that failed."""
    return replace(no_profile(why), arm=identity(arm.determinants()))
