"""The states of a trial: which of its steps count, without a process, a model or a clock."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from slowstep_probe.trial.messages import TrainBlock
from slowstep_probe.trial.schedule import DRAIN_AT_MOST, ROUNDS, Schedule, State, Then

BATCH = 8


@dataclass
class Queue:
    """Batches that lie ready, of so many workers; `fall` of them are used up in each step."""

    number: int = 0
    ready: int = 0
    fall: int = 1

    @property
    def outstanding(self) -> int:
        """As many as lay ready at first."""
        return 6

    def step(self) -> None:
        """A step takes a batch, and workers that keep up replace it."""
        self.ready = max(0, self.ready - self.fall)


def steps_of(request: TrainBlock, queue: Queue | None = None, batches: list[int] | None = None) -> list[str]:
    """What each step was for, until the block is closed; `batches` are the samples of each step."""
    schedule, queue, position = Schedule(), queue or Queue(), 0
    schedule.begin(request, position, queue)
    seen = []
    while True:
        seen.append(schedule.state.name)
        position += batches[len(seen) - 1] if batches else BATCH
        queue.step()
        if schedule.step_ended(position, queue) is Then.CLOSE:
            assert schedule.state is State.WAITING
            assert schedule.trained == len(seen)
            assert schedule.unsteady <= len(seen)
            return seen


@pytest.mark.parametrize(("steps", "discard"), [(1, 0), (4, 0), (4, 3)])
def test_a_block_has_the_steps_that_were_asked_for(steps: int, discard: int) -> None:
    """So many are discarded first, and so many measured."""
    assert ["DISCARDING"] * discard + ["MEASURING"] * steps == steps_of(TrainBlock(steps=steps, discard=discard))


def test_a_block_begins_at_its_sample() -> None:
    """However few steps are to be discarded, those before its first sample are; and it holds its samples."""
    found = steps_of(TrainBlock(samples=3 * BATCH, discard=1, start=5 * BATCH))

    assert ["DISCARDING"] * 5 + ["MEASURING"] * 3 == found


def test_a_block_holds_whole_periods() -> None:
    """What happens every third step happens as often in each block."""
    assert 6 == steps_of(TrainBlock(steps=4, period=3)).count("MEASURING")


def test_a_short_batch_makes_no_block_a_period_longer() -> None:
    """An epoch's last batch of three samples leaves the block one sample short of two periods, and it ends there."""
    batches = [BATCH, BATCH, BATCH, 3] * 3

    assert 8 == steps_of(TrainBlock(samples=2 * 27 + 1, period=4), batches=batches).count("MEASURING")


def test_a_queue_is_used_up_before_anything_counts() -> None:
    """What lay ready is used up, and then more is discarded than usual, until all workers deliver evenly."""
    found = steps_of(TrainBlock(steps=2, discard=2, drain=True), Queue(number=2, ready=4))

    assert ["DRAINING"] * 4 + ["DISCARDING"] * (2 * ROUNDS) + ["MEASURING"] * 2 == found


def test_a_loader_that_keeps_up_has_nothing_to_use_up() -> None:
    """A queue that stays full is left alone soon, and one that falls for ever is given up."""
    full = steps_of(TrainBlock(steps=1, discard=1, drain=True), Queue(number=2, ready=6, fall=0))
    falling = Queue(number=1, ready=10**6)

    assert ["DRAINING"] * 3 == full[:3]
    assert "DISCARDING" == full[3]
    drained = steps_of(TrainBlock(steps=1, discard=1, drain=True), falling).count("DRAINING")
    assert DRAIN_AT_MOST * falling.outstanding == drained


def test_steady_steps_before_a_block_are_told_from_the_others() -> None:
    """Steps on the way to the first sample are steady once the discards are over."""
    schedule, queue = Schedule(), Queue()
    schedule.begin(TrainBlock(steps=1, discard=2, start=6 * BATCH), 0, queue)
    for step in range(1, 7):
        then = schedule.step_ended(step * BATCH, queue)

    assert (Then.OPEN, 2) == (then, schedule.unsteady)
