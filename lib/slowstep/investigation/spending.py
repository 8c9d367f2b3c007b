"""What a lab has spent since it was opened, and what is left of the minutes that measuring may take."""

from __future__ import annotations

import math

from slowstep.investigation import minutes
from slowstep.investigation.clock import working_clock
from slowstep.investigation.evidence import Evidence
from slowstep.investigation.results import PlanRun
from slowstep.measure.measurer import Measurer
from slowstep.records import identity
from slowstep.settings.sections import SECTIONS


class Spending:
    """The seconds and the optimizer steps that a lab spends, and those that all calls have spent on its run."""

    def __init__(self, evidence: Evidence, measurer: Measurer | None):
        self._evidence, self._measurer = evidence, measurer
        self._clock = working_clock()
        self.began = self._clock()
        self._waited_before = measurer.waited_seconds if measurer else 0.0
        self._before = self.totals()
        self._counted = (0.0, 0.0, 0)
        """Seconds, those in measured blocks, and steps of this lab that its last conclusion has counted."""

    def elapsed(self) -> float:
        """Return the seconds since the lab was opened, without waits for a node and the time between cells."""
        waited = self._measurer.waited_seconds - self._waited_before if self._measurer else 0.0
        return self._clock() - self.began - waited

    def totals(self) -> tuple[float, int]:
        """Return the seconds in measured blocks and the optimizer steps of the measurer, whichever lab asked for them.

        Both are 0 where nothing is measured.
        """
        return (self._measurer.measured_seconds, self._measurer.steps) if self._measurer else (0.0, 0)

    def left(self, part: float) -> float:
        """Return the seconds that are left of a part of the minutes that measuring may take (`budget.minutes`)."""
        evidence, limit = self._evidence, self._evidence.settings.budget.minutes
        if limit is None or self._measurer is None:
            return math.inf
        arm, run = identity(evidence.arm.determinants()), evidence.run_identity
        known = sum(minutes.spent_seconds(evidence.store, section.notebook, arm, run) for section in SECTIONS)
        spent = known - self._counted[0] + self._on_plan().seconds + minutes.drawing_seconds(evidence.store)
        return 60 * limit * part - spent - self.elapsed()

    def keep_of_plan(self, began: float, before: tuple[float, int]) -> PlanRun:
        """Keep and return what all calls have spent on the plan.

        `began` is what had elapsed when this call began with it, and `before` what the totals were.
        """
        earlier = self._on_plan()
        measured_seconds, steps = self._since(before)
        if not steps:
            return earlier
        spent = PlanRun(
            seconds=earlier.seconds + self.elapsed() - began,
            measured_seconds=earlier.measured_seconds + measured_seconds,
            steps=earlier.steps + steps,
        )
        self._evidence.store.write(spent, "plans", self._evidence.run_identity)
        return spent

    def count(self, notebook: str) -> PlanRun:
        """Return what all calls have spent on the questions of a notebook; what it has counted before counts once."""
        spent = (self.elapsed(), *self._since(self._before))
        seconds, measured_seconds, steps = (now - then for now, then in zip(spent, self._counted, strict=True))
        known = minutes.spent_on(self._evidence.store, notebook, self._evidence.run_identity)
        if earlier := known or self._evidence.concluded:
            seconds = earlier.seconds + (seconds if steps else 0.0)  # to read again what is known is not counted
            measured_seconds, steps = earlier.measured_seconds + measured_seconds, earlier.steps + steps
        if self._measurer is not None:
            self._counted = spent
        return PlanRun(seconds=seconds, measured_seconds=measured_seconds, steps=int(steps))

    def _on_plan(self) -> PlanRun:
        return self._evidence.store.read(PlanRun, "plans", self._evidence.run_identity) or PlanRun()

    def _since(self, before: tuple[float, int]) -> tuple[float, int]:
        """Return the seconds in measured blocks and the optimizer steps since the totals were those of `before`."""
        seconds, steps = self.totals()
        return seconds - before[0], steps - before[1]
