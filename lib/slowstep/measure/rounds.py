"""Comparisons in rounds: one block of the baseline serves several comparisons, and so does one launch of it.

The opinions here, and why:

- A round is a block of the baseline and a block of each treatment, next to each other in time and on the same samples.
  It gives each comparison a pair. For k comparisons that takes k + 1 blocks and not 2k.
- Each comparison draws by itself whether its treatment goes before the baseline or after it. So its order is as random
  as if it were measured alone, and can be told from its recorded seed.
- Each comparison has its own stop rule and leaves when that is met. All arms are launched anew if one comparison needs
  it: an arm that begins anew would have to train as far as the others.
- Comparisons of a round share the noise of the baseline's blocks and the offset of its launch, so their errors are
  correlated. That changes no single interval, and Holm's correction holds for any correlation.
- What does not fit in goes on by itself afterwards, with the pairs that it has: an arm that finds no room in memory
  beside the others, one with steps of another size, training that is too short for a round, what a failed baseline
  leaves open, and what is to be measured anew with epochs that end.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from slowstep.judgement.comparison import FEWEST_PAIRS
from slowstep.launch.trial_process import NoTimeLeft, TrialEnded
from slowstep.measure.block_samples import Needs, common, sizes
from slowstep.measure.interleaved import keys_of
from slowstep.measure.measurer import ComparisonRequest, OnPairsOf
from slowstep.measure.member import RoundMember
from slowstep.measure.own_epochs import EpochsHaveToEnd
from slowstep.measure.pool import TrialPool
from slowstep.measure.turns import BASELINE, TREATMENT
from slowstep.records import Block, ComparisonRecord, Status, Steps

T = TypeVar("T")

LARGEST_STEP_DIFFERENCE = 0.25
"""The share by which the samples of a step may differ between two arms of a round: batches may vary in size."""


class Rounds:
    """Comparisons of one baseline under way."""

    def __init__(self, pool: TrialPool, requests: Sequence[ComparisonRequest], deadline: float):
        self.pool, self._key = pool, keys_of(requests[0])[BASELINE]
        pool.keep_only({self._key})
        self.live = [RoundMember(number, pool, request, deadline) for number, request in enumerate(requests)]
        """The comparisons that take part."""
        self.failed: list[RoundMember] = []
        """The members whose treatment has failed, until their record is given."""
        self.alone: list[RoundMember] = []
        """The members that have to go on by themselves."""
        self.measured_seconds = 0.0
        self._rng = random.Random(self.live[0].seed)
        self._freshly_launched = False
        """True if all arms were launched, and no round was measured since."""
        self._steps: list[Steps] = []
        """The steady steps of the baseline so far, which are evidence in all records."""

    def run(self, on_pairs: OnPairsOf) -> Iterator[tuple[int, ComparisonRecord]]:
        """Measure until each comparison is decided, and yield its number with its record as soon as it is."""
        try:
            with self._time_of_all():
                self._end_if_outlived()
                resident = self._key in self.pool.live
                self._launch_all()
            self._freshly_launched = not resident
            while self.live:
                for member in self.live:
                    on_pairs(member.number, member.pairs)
                with self._time_of_all():
                    self._round()
                for member in [*self.failed, *(m for m in self.live if m.over)]:
                    yield member.number, self._record_of(member)
                if any(member.needs_new_launches for member in self.live):
                    with self._time_of_all():
                        self._launch_anew_if_allowed()
        except (_NotTogether, _TrainingEnded):
            self.alone += self.live
            self.live.clear()
        except EpochsHaveToEnd as why:
            self.pool.let_epochs_end(why.failed)
            for member in self.live:
                member.forget_pairs()
            self.alone += self.live
            self.live.clear()
        except NoTimeLeft:
            for member in [member for member in self.live if len(member.pairs) >= FEWEST_PAIRS]:
                yield member.number, self._record_of(member)
        finally:
            self.pool.keep_only({self._key})
        for member in list(self.failed):
            yield member.number, self._record_of(member)

    @contextlib.contextmanager
    def _time_of_all(self) -> Iterator[None]:
        """Count the seconds of the block as those of all comparisons that take part, the same for each."""
        began, members = time.monotonic(), list(self.live)
        try:
            yield
        finally:
            for member in members:
                member.seconds += (time.monotonic() - began) / len(members)

    # -- launches --

    def _end_if_outlived(self) -> None:
        """End the baseline if a new launch takes less time than all treatments would need to catch up with it."""
        trial = self.pool.live.get(self._key)
        if trial and trial.outlived(others=len(self.live)):
            self.pool.end(self._key)

    def _launch_all(self) -> None:
        """Launch the baseline, and the treatments as far as they fit beside it."""
        self._freshly_launched = True
        self._ask_baseline(lambda: self.live[0].trial(BASELINE))
        waiting = list(self.live)
        while waiting:
            started = [member for member in waiting if self.pool.is_started(member.keys[TREATMENT])]
            together = started or waiting[: self.pool.room_for([m.request.treatment.settings for m in waiting])]
            if not together:
                self._set_aside(waiting.pop(0))
                continue
            if not started and len(together) > 1:
                self.pool.start({member.keys[TREATMENT]: member.request.treatment for member in together})
            for member in together:
                waiting.remove(member)
                self._launch_treatment(member)

    def _launch_treatment(self, member: RoundMember) -> None:
        """Launch a treatment beside the baseline."""
        base = self._ask_baseline(lambda: member.trial(BASELINE))
        try:
            trial = member.trial(TREATMENT)
        except TrialEnded as ended:
            self._handle_end(member, ended)
            return
        # those that were built together were taken for as large as the baseline
        if abs(trial.step_samples / base.step_samples - 1) > LARGEST_STEP_DIFFERENCE or not self.pool.has_room():
            self._set_aside(member)

    def _launch_anew_if_allowed(self) -> None:
        """Give the next rounds new launches of all arms, as often as the budget allows."""
        if max(member.launch for member in self.live) + 1 < self.pool.budget.launches:
            self._launch_anew()

    def _launch_anew(self) -> None:
        if not self.live:  # the last one's treatment has failed in this round
            return
        for member in self.live:
            member.launch += 1
        self.pool.keep_only(set())
        lead = self.live[0]
        arms = {lead.keys[BASELINE]: lead.request.baseline}
        arms |= {member.keys[TREATMENT]: member.request.treatment for member in self.live}
        self.pool.start_first(arms)  # they have lived beside each other
        self._launch_all()

    # -- rounds --

    def _round(self) -> None:
        """Measure a round, or launch all arms anew if the training of one has come to its own end."""
        if self._key not in self.pool.live:  # it ended while a comparison that had been decided took its last look
            self._launch_anew()
            if not self.live:  # none came up again
                return
        try:
            self._blocks()
        except _TrainingEnded:
            if self._freshly_launched:
                raise _NotTogether from None  # a whole life was too short for a round
            self._launch_anew()

    def _blocks(self) -> None:
        """Measure a block of each arm. A comparison whose treatment fails or was interrupted gets no pair of them."""
        start = self._start()
        if not self.live:
            return
        lead, samples = self.live[0], common(sizes(*self._arms), self._needs("unit"), self._needs("step"))
        early = [member for member in self.live if member.first == TREATMENT]
        late = [member for member in self.live if member.first == BASELINE]
        found: dict[RoundMember, Block] = {}
        for member in self._rng.sample(early, len(early)):
            found |= self._treatment(member, start, samples)
        base = self._ask_baseline(lambda: lead.block(BASELINE, start, samples))
        if base is None or self._repeats_round(base):
            self._forget(lead, BASELINE, base)
            self._freshly_launched = (
                self._freshly_launched and base is None
            )  # what was interrupted could have been a round
            return
        self.measured_seconds += base.seconds
        for member in self._rng.sample(late, len(late)):
            found |= self._treatment(member, start, samples)
        for member, block in found.items():
            if member in self.live:
                self.measured_seconds += block.seconds
                member.take(base, block)
        self._freshly_launched = False

    def _repeats_round(self, base: Block) -> bool:
        """Return whether the baseline's block is measured again, with its round: if each comparison may do so."""
        if not all(member.may_repeat(base, BASELINE) for member in self.live):
            return False
        for member in self.live:
            member.note_repeat(base, BASELINE)
        return True

    def _start(self) -> float:
        """Bring all arms close to the sample that the round begins with, and return that sample."""
        lead = self.live[0]
        trials = [lead.trial(BASELINE), *(member.trial(TREATMENT) for member in self.live)]
        spare = max(sizes(*self._arms))
        start = common([trial.soonest for trial in trials], self._needs("step"), spare=spare)
        self._ask_baseline(lambda: lead.catch_up(BASELINE, start))
        for member in list(self.live):
            try:
                member.catch_up(TREATMENT, start)
            except TrialEnded as ended:
                self._handle_end(member, ended)
        return start

    @property
    def _arms(self) -> list[Needs]:
        """The needs of the arms, those of the baseline first."""
        return [self.live[0].needs[BASELINE], *(member.needs[TREATMENT] for member in self.live)]

    def _needs(self, part: str) -> list[float]:
        """Return a part of what the arms need."""
        return [getattr(needs, part) for needs in self._arms]

    def _treatment(self, member: RoundMember, start: float, samples: float) -> dict[RoundMember, Block]:
        """Return the block of a treatment, or nothing if it is none that counts."""
        try:
            block = member.block(TREATMENT, start, samples)
        except TrialEnded as ended:
            self._handle_end(member, ended)
            return {}
        if block is None or member.repeat_if_interrupted(block, TREATMENT):
            self._forget(member, TREATMENT, block)
            return {}
        return {member: block}

    def _forget(self, member: RoundMember, side: int, block: Block | None) -> None:
        """Forget the steps of a block that was interrupted: what disturbed it is no stall of the run's own."""
        if block is not None:
            member.trial(side).timed.pop()

    # -- what ends --

    def _ask_baseline(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except TrialEnded as ended:
            if self.pool.own_epochs.may_help(ended.failed):
                raise EpochsHaveToEnd(ended.failed) from None
            raise (_TrainingEnded if ended.failed.status is Status.ENDED else _NotTogether) from None

    def _handle_end(self, member: RoundMember, ended: TrialEnded) -> None:
        """Take a comparison whose treatment has ended out of the rounds: as failed, or to be measured by itself."""
        status = ended.failed.status
        if status is Status.ENDED and not self._freshly_launched:
            raise _TrainingEnded from None
        if status is Status.ENDED or ended.failed.may_fit_alone:
            self._set_aside(member)
        else:
            member.fail(ended)
            self.live.remove(member)
            self.failed.append(member)

    def _set_aside(self, member: RoundMember) -> None:
        self.live.remove(member)
        self.pool.end(member.keys[TREATMENT])
        self.alone.append(member)

    def _record_of(self, member: RoundMember) -> ComparisonRecord:
        """Return the record of a comparison that is over, and let it go."""
        (self.failed if member in self.failed else self.live).remove(member)
        self._steps += self.pool.take_steps(self._key)
        record = member.record(self._steps)
        self.pool.end(member.keys[TREATMENT])
        for other in (*self.live, *self.failed):
            other.before[BASELINE] = self.pool.wall(self._key)
        return record


class _TrainingEnded(Exception):
    """The end of the training of some arm by itself."""


class _NotTogether(Exception):
    """The end of measuring together: what is not decided is measured by itself."""
