"""One of several comparisons that are measured together (`slowstep.measure.rounds`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from slowstep.launch.trial_process import TrialEnded
from slowstep.measure.going_on import joined
from slowstep.measure.interleaved import InterleavedComparison
from slowstep.measure.live_trial import LiveTrial
from slowstep.measure.measurer import ComparisonRequest
from slowstep.measure.pool import TrialPool
from slowstep.measure.turns import BASELINE, SIDES, TREATMENT
from slowstep.records import Block, ComparisonRecord, Pair, Steps
from slowstep_probe.trial.messages import ROUNDING

T = TypeVar("T")


class RoundMember(InterleavedComparison):
    """A comparison whose baseline is also that of the others. Its verbs raise TrialEnded if a trial fails."""

    def __init__(self, number: int, pool: TrialPool, request: ComparisonRequest, deadline: float):
        super().__init__(pool, request, deadline)
        self.number = number
        """Its place among the requests."""
        self.before = [pool.wall(key) for key in self.keys]
        self.first = next(self.order)
        """The side that goes first in the next pair."""
        self.seconds = 0.0
        """Its part of the time so far."""

    @property
    def over(self) -> bool:
        """Return whether it needs no more pairs, or there is no time for them."""
        return self.request.stop.met(self.pairs) or self._is_out_of_time()

    def trial(self, side: int) -> LiveTrial:
        """Return the trial of a side, launched if it does not live."""
        return self._launch(side)

    def answer(self, side: int, ask: Callable[[LiveTrial], T]) -> T:
        """Return what the trial of a side answers."""
        trial = self.pool.live[self.keys[side]]
        try:
            answer = ask(trial)
        except TrialEnded:
            self.pool.end(self.keys[side])
            raise
        self._note_record(side, trial)
        return answer

    def catch_up(self, side: int, start: float) -> None:
        """Let the trial of a side train on until a block can soon begin at the sample `start`."""
        self.answer(side, lambda trial: trial.catch_up(start))

    def block(self, side: int, start: float, samples: float) -> Block | None:
        """Return a block of a side, or None if its trial is past the sample `start` already."""
        self.catch_up(side, start)
        if self.trial(side).soonest > start + ROUNDING:
            return None
        return self.answer(side, partial(self._block, side=side, start=start, samples=samples))

    def take(self, baseline: Block, treatment: Block) -> None:
        """Keep a pair, and draw the order of the next."""
        self.add_pair(Pair(first=SIDES[self.first], baseline=baseline, treatment=treatment, launch=self.launch))
        self.first = next(self.order)

    def fail(self, ended: TrialEnded) -> None:
        """Note that the treatment failed."""
        self._note_failure(TREATMENT, ended)

    def record(self, baseline_steps: Sequence[Steps]) -> ComparisonRecord:
        """Return what was measured, with the steady steps of the baseline."""
        live = self.pool.live.get(self.keys[BASELINE])
        if live:
            self._note_record(BASELINE, live)
        found = self._comparison_record()
        found = replace(found, baseline=replace(found.baseline, steps=list(baseline_steps)), seconds=self.seconds)
        return joined(self.earlier, found)
