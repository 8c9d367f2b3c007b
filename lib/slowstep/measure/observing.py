"""An arm that is observed by itself: it trains on for many steps, each of which is timed."""

from __future__ import annotations

import time
from dataclasses import replace

from slowstep.factors import Arm
from slowstep.launch.trial_process import NoTimeLeft, TrialEnded
from slowstep.measure.live_trial import OBSERVED
from slowstep.measure.pool import TrialPool
from slowstep.records import ObservationRecord, Status, TrialRecord, identity
from slowstep_probe.trial.messages import Failed, TrainBlock

CHUNK_SECONDS = 2.0
"""The seconds of steps that are asked for at once."""

SHORTEST_CHUNK_SECONDS = 0.01
"""The seconds below which an arm whose training ends is observed in no shorter chunks."""


class Observing:
    """An observation of an arm under way."""

    def __init__(self, pool: TrialPool, arm: Arm):
        self.pool, self.arm, self.key = pool, arm, identity(arm.determinants())
        self.trained = 0
        """The steps that were observed so far."""
        self.measured_seconds = 0.0
        self.out_of_time = False
        """True if it ended since no trial is waited for any longer."""
        self._chunk_seconds = CHUNK_SECONDS
        self._trained_at_end = 0
        """The steps that were observed when a trial ended last."""
        self._trial = self._last_good = TrialRecord(arm=arm.label, status=Status.OK)

    def run(self, steps: int, seconds: float) -> ObservationRecord:
        """Train on for `steps` steps, or for `seconds` at most, and return what was observed."""
        began = time.perf_counter()
        goes_on = True
        while goes_on and self.trained < steps and (left := seconds - time.perf_counter() + began) > 0:
            goes_on = self._advance(steps - self.trained, left)
        ended_in_between = (
            self._trial.status is Status.ENDED and self.trained
        )  # the time was over before it could go on
        trial = self._last_good if ended_in_between else self._trial
        return ObservationRecord(
            arm=self.key,
            trial=replace(trial, steps=self.pool.take_steps(self.key)),
            seconds=time.perf_counter() - began,
        )

    def _advance(self, steps: int, seconds: float) -> bool:
        """Train on for a chunk of steps, within these at most, and return whether the observation goes on."""
        try:
            trial = self.pool.launch(self.arm, self.key)
            at_once = max(1, round(self._chunk_seconds / trial.step_seconds))
            asked = max(1, min(at_once, steps, round(seconds / trial.step_seconds)))
            request = TrainBlock(steps=asked, discard=0 if trial.timed else trial.discard)
            measured = trial.run(request, asked * trial.step_samples, OBSERVED)
        except NoTimeLeft:
            self.pool.end(self.key)
            self.out_of_time = True
            return False
        except TrialEnded as ended:
            self.pool.end(self.key)
            return self._goes_on_after(ended.failed)
        self.trained += measured.block.steps
        self.measured_seconds += measured.block.seconds
        self._trial = self._last_good = trial.record
        return True

    def _goes_on_after(self, failed: Failed) -> bool:
        """Note how a trial ended, and return whether a new one goes on where the training begins.

        It goes on in shorter chunks if the one that ended completed none.
        """
        if self.pool.own_epochs.may_help(failed):
            self.pool.let_epochs_end(failed)
            self.trained = self._trained_at_end = 0
            return True
        log = self.pool.log_of[self.key].name
        self._trial = TrialRecord(arm=self.arm.label, status=failed.status, reason=failed.reason, log=log)
        if failed.status is not Status.ENDED or self._chunk_seconds < SHORTEST_CHUNK_SECONDS:
            return False
        if self.trained == self._trained_at_end:
            self._chunk_seconds /= 3
        self._trained_at_end = self.trained
        return True
