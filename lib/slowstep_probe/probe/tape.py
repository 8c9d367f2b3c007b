"""The tape of a trial: what was marked and trained on since the last block ended. Blocks are cut from it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate

from slowstep_probe.measured import PHASES, Block, Steps, Work
from slowstep_probe.own_time import time
from slowstep_probe.probe import batch_work
from slowstep_probe.probe.clock import Clock
from slowstep_probe.probe.marks import STEP, Mark, phase_names, steps_of


class Tape:
    """Marks, the work between them, and the position in the data.

    `training` holds the numbers of the iterators whose batches are trained on; it grows while the tape runs.
    """

    def __init__(self, clock: Clock, training: Collection[int]):
        self._clock, self.training = clock, training
        self.marks: list[Mark] = []
        """Marks since the last block ended, or since the open one began."""
        self._opened = 0.0
        """The moment at which the open block began, by `time.monotonic()`."""
        self._starts: list[int] = [0]
        """Positions, in samples, at which the steps between the marks begin."""
        self._before: tuple[list[Mark], list[int]] = ([], [])
        """The marks of the steps before the open block, with the positions at which these begin."""
        self.passed = Steps()
        """The steps between the last two blocks; known when the second one has ended."""
        self._works: list[Work] = []
        self._last = Work(samples=1)
        """The work of the last batch that told its samples."""
        self.position = 0
        """Samples trained on. A step without any that are known has the last batch again, or one sample before that."""
        self._samples = self._counted = 0
        """Samples of the batches that met a forward pass, and how many of them lie before the last step boundary."""

    @property
    def clock(self) -> Clock:
        """The clock of the marks. Where another one is taken, the marks so far are dropped, since no gap spans both."""
        return self._clock

    @clock.setter
    def clock(self, clock: Clock) -> None:
        if clock is not self._clock:
            self._clock = clock
            self._before = ([], [])
            self._begin()

    def open(self) -> None:
        """Begin a block at this moment.

        What was marked before is read when the block ends: to wait for the device here would take the lead from the
        host that it has in training, and the first step would show what training hides.
        """
        self._works = []
        self._before = (self.marks, self._starts)
        self._opened = time.monotonic()
        self._begin(Mark(self.clock.begin(), "other"))

    def close(self, step_is_due: bool) -> tuple[Block, Steps]:
        """End the block at this moment, and return it as a whole and step by step, without a step that is under way.

        A step whose boundary is due has ended.
        """
        whole = True
        if self.marks[-1].phase != STEP:
            if step_is_due:  # the last one of a loop, which asks for nothing any more
                self.mark(STEP)
                self._starts.append(self.position)
            else:
                self._leave_out_unfinished()
                whole = False
        if whole:
            self.marks[-1] = self.marks[-1]._replace(moment=self.clock.ended(self.marks[-1].moment))
        else:  # what was launched last belongs to no step of the block
            self.clock.synchronize()
        self.passed, steps = self._steps(*self._before), self._steps(self.marks, self._starts)
        self._before = ([], [])
        seconds = steps.seconds
        self._begin()
        block = Block(
            steps=len(steps),
            seconds=sum(seconds),
            phases={p: sum(steps.phases.get(p, ())) for p in PHASES},
            step_seconds=seconds,
            work=batch_work.total(self._works),
        )
        return block, steps

    @property
    def has_steps(self) -> bool:
        """True if a step has ended since the last block did, or since the open one began."""
        return len(self._starts) > 1

    def mark(self, phase: str, iterator: int | None = None) -> None:
        """Mark this moment as the beginning of a phase."""
        self.marks.append(Mark(self._clock.mark(), phase, iterator))

    def add(self, done: Work) -> None:
        """Count the work of a batch that training begins with."""
        self._works.append(done)
        self._samples += done.samples
        self._last = done if done.samples else self._last

    def end_step(self) -> None:
        """Mark this moment as a step boundary, and count what was trained on before it."""
        if self._samples == self._counted:
            self.add(self._last)
        self.position += self._samples - self._counted
        self._counted = self._samples
        self.mark(STEP)
        self._starts.append(self.position)

    def belongs_to(self, iterator: int) -> None:
        """Give the last time for data to an iterator, whose number became known while it passed."""
        last = next((i for i in reversed(range(len(self.marks))) if self.marks[i].phase == "data"), None)
        if last is not None:
            self.marks[last] = self.marks[last]._replace(iterator=iterator)

    def last_mark(self) -> int:
        """Return the number of the last mark, counted from 0 where the block began."""
        return len(self.marks) - 1

    def reached(self) -> list[float]:
        """Return the moments, by `time.monotonic()`, at which what trains came to each mark of the open block.

        A device comes there later than the host, which waits for it here. It was idle when the block began.
        """
        self.clock.synchronize()
        gaps = self.clock.gaps([mark.moment for mark in self.marks])
        return list(accumulate(gaps, initial=self._opened))

    @property
    def phase(self) -> str:
        """The phase that training is in now."""
        last = self.marks[-1].phase if self.marks else "other"
        return "other" if last == STEP else last

    def phases(self) -> list[str]:
        """Return the phase that follows each mark."""
        return ["other" if name == STEP else name for name in phase_names(self.marks, self.training)]

    def _steps(self, marks: Sequence[Mark], starts: Sequence[int]) -> Steps:
        """Return the steps that marks make which begin at these positions. The last mark ends the last step."""
        if len(starts) < 2:
            return Steps()
        gaps = self.clock.gaps([mark.moment for mark in marks])
        return steps_of(marks[:-1], gaps, starts, self.training)

    def _leave_out_unfinished(self) -> None:
        """Drop the marks and the work of the step under way, which ends within that: by an exception, say."""
        ends = [i for i, mark in enumerate(self.marks) if mark.phase == STEP]
        del self.marks[ends[-1] + 1 if ends else 1 :]
        while self._works and self._samples > self._counted:
            self._samples -= self._works.pop().samples

    def _begin(self, *marks: Mark) -> None:
        self.marks, self._starts = list(marks), [self.position]
