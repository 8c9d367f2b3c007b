"""The schedule of a trial's steps: which of them use up old batches, which are discarded, and which make the block.

It is a state machine that knows nothing of processes and clocks. It is told each step that has ended, and answers what
happens at that step boundary.

    WAITING --request--> DRAINING --queue used up--> DISCARDING --enough discarded--> MEASURING --complete--> WAITING
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from slowstep_probe.trial.messages import ROUNDING, TrainBlock

ROUNDS = 3
"""The factor on the steps that are discarded after the queue of a loader that lags behind is used up. All workers
deliver evenly after these steps."""

DRAIN_AT_MOST = 3
"""The most steps for using up a queue, as a multiple of its length. A loader whose queue is not empty then keeps up."""


class State(Enum):
    """The states of a trial, by what its steps are for."""

    WAITING = "waiting for a request"
    DRAINING = "using up the batches that lay ready"
    DISCARDING = "discarding steps before the block"
    MEASURING = "measuring a block"


class Then(Enum):
    """The things that can happen at a step boundary."""

    TRAIN_ON = "train on"
    OPEN = "open the block and train on"
    CLOSE = "close the block"


class Queue(Protocol):
    """The batches that loader workers have made beforehand."""

    @property
    def number(self) -> int:
        """The number of workers."""

    @property
    def ready(self) -> int:
        """The number of batches that lie ready."""

    @property
    def outstanding(self) -> int:
        """The most batches that the queue may hold."""


class Schedule:
    """The state of one trial. Positions are in samples trained on since the launch."""

    def __init__(self) -> None:
        self.state = State.WAITING
        self.request = TrainBlock()
        self.trained = 0
        """Steps trained since the last request began."""
        self.all_trained = 0
        """Steps trained since the launch."""
        self.unsteady = 0
        """Steps among `trained` that were discarded, or used up a queue."""
        self._steps = self._discards_left = self._lay_ready = 0
        self._begun = 0.0

    def begin(self, request: TrainBlock, position: float, queue: Queue) -> Then:
        """Take a request at `position`, and return TRAIN_ON, or OPEN if the block begins at once."""
        self.request, self._discards_left = request, request.discard
        self.trained = self.unsteady = 0
        if request.drain and queue.ready > 0:
            self.state, self._lay_ready = State.DRAINING, queue.ready
            return Then.TRAIN_ON
        self.state = State.DISCARDING
        return self._opened(position)

    def step_ended(self, position: float, queue: Queue) -> Then:
        """Count a step that has ended at `position`, and return what happens now."""
        self.trained += 1
        self.all_trained += 1
        if self.state is State.MEASURING:
            self._steps += 1
            if not self._complete(position):
                return Then.TRAIN_ON
            self.state = State.WAITING
            return Then.CLOSE
        if self.state is State.DRAINING:
            self.unsteady += 1
            self._drain(queue)
            return Then.TRAIN_ON
        self.unsteady += self._discards_left > 0
        self._discards_left -= 1
        return self._opened(position)

    def _drain(self, queue: Queue) -> None:
        """Go on to discarding once the batches that lay ready are used up, or the loader proves to keep up."""
        if queue.ready == 0:
            self.state = State.DISCARDING
            self._discards_left *= ROUNDS  # until the batches of all workers come as evenly as they will
        elif self.trained % (queue.number + 1) == 0:
            falling = queue.ready < self._lay_ready
            if not falling or self.trained >= DRAIN_AT_MOST * queue.outstanding:
                self.state = State.DISCARDING
            self._lay_ready = queue.ready

    def _opened(self, position: float) -> Then:
        if self._discards_left > 0 or position < self.request.start - ROUNDING:
            return Then.TRAIN_ON
        self.state, self._steps, self._begun = State.MEASURING, 0, position
        return Then.OPEN

    def _complete(self, position: float) -> bool:
        """Return whether the block may end here.

        Periods may differ in samples, since an epoch ends in a short batch. The block then ends at the whole period
        that is nearest to the samples asked for.
        """
        asked, samples = self.request, position - self._begun
        slack = samples / self._steps * asked.period / 2 if asked.period > 1 else ROUNDING
        enough = self._steps >= asked.steps and samples >= asked.samples - slack
        return enough and self._steps % asked.period == 0
