"""An interleaved comparison: pairs of blocks of two arms, in a drawn order, until the stop rule is met.

The opinions here, and why:

- Both arms stay resident and take turns block by block, so that drift of the machine falls on both. Which one goes
  first is drawn, and each does so in one of every two pairs (`slowstep.measure.turns`). If both don't fit in memory
  together they are launched by turns.
- Both are launched anew where that narrows the interval, since a launch can be a percent faster or slower for its
  whole life.
- The baseline stays resident from one comparison to the next, until it has served for longer than its launch took. The
  treatment begins with the first sample, and would have to train as far.
- While an arm waits, what its program has started stands still (`slowstep_probe.trial.standstill`): no batch is made in
  a time that does not count. When its turn comes, at least one step for each worker, and one more, are discarded.
- Both blocks of a pair train on the same samples, as far as the arms draw the same ones: the arm that is behind
  discards steps until it is where the other is. Short blocks of unlike samples differ by more than most changes bring.
- A pair that was visibly interrupted by other processes, or by a device whose clock was held down, is measured again,
  at most `budget.redo_blocks` times a comparison and twice in a row, and the record says so. A block is also thrown
  away if the other one of its pair turns out to be past its samples already, or had to be launched anew.

- Training that comes to its own end, because it counts its steps, is launched anew, both arms together. If a whole
  life holds no pair of blocks, the blocks are made shorter.

A trial that fails is part of the record and never an exception: the pairs measured before it stay.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from slowstep.judgement.block_length import FIRST_BLOCK_SECONDS, prolonged
from slowstep.judgement.comparison import FEWEST_PAIRS
from slowstep.launch.trial_process import NoTimeLeft, TrialEnded
from slowstep.measure.block_samples import Needs, common, sizes
from slowstep.measure.going_on import joined, pairs_before
from slowstep.measure.interference import Interference
from slowstep.measure.live_trial import LiveTrial
from slowstep.measure.measurer import ComparisonRequest, OnPairs
from slowstep.measure.own_epochs import EpochsHaveToEnd
from slowstep.measure.pool import TrialPool
from slowstep.measure.turns import BASELINE, SIDES, TREATMENT, draw_first_sides
from slowstep.records import Block, ComparisonRecord, Pair, Status, TrialRecord, identity
from slowstep.settings.epochs import FAILED
from slowstep_probe.processes.log import log_tail
from slowstep_probe.trial.messages import ROUNDING, Failed

MOST_REPEATS_IN_A_ROW = 2
"""The most blocks of an arm that are measured again one after the other. A load that stays is the machine's state."""

FAR_TOO_LONG = 2.0
"""The factor by which a block may last longer than the longest that is planned, before the next ones are made
shorter."""

T = TypeVar("T")


class InterleavedComparison:
    """One comparison under way."""

    def __init__(self, pool: TrialPool, request: ComparisonRequest, deadline: float = math.inf):
        self.pool, self.request, self.budget, self.deadline = pool, request, pool.budget, deadline
        self.block_seconds = self.budget.block_seconds or request.block_seconds or FIRST_BLOCK_SECONDS
        self.arms = (request.baseline, request.treatment)
        self.keys = keys_of(request)
        self.seed = int(identity(self.budget.seed, *self.keys, request.purpose), 16) % 2**32
        self.order = draw_first_sides(self.seed)
        self.earlier = request.earlier if request.earlier and self._is_alike(request.earlier) else None
        """What was measured of it in another run, and counts."""
        self.pairs: list[Pair] = pairs_before(self.earlier)
        for _ in self.pairs:
            next(self.order)
        self.redone: list[str] = list(self.earlier.redone) if self.earlier else []
        self.repeats_in_a_row = [0, 0]
        """Number of blocks of each arm that were measured again since its last pair in which nothing interrupted it."""
        self.by_turns = False
        self.before: list[dict[str, float]] = [{}, {}]
        """Seconds of both arms' lives before this comparison, by part. The baseline may have served others."""
        self.launch = 0
        """Number of the launches that the next pair is measured in."""
        self.needs: dict[int, Needs] = {}
        """The needs of each side, known from its launches."""
        self.freshly_launched = False
        """True if both arms were launched together, and no pair was measured since."""
        self.failed: dict[int, TrialRecord] = {}
        self.seen: dict[int, TrialRecord] = {}

    def run(self, on_pairs: OnPairs) -> ComparisonRecord | None:
        """Measure until the stop rule is met or an arm fails, and return the record; `on_pairs` gets the pairs so far.

        None if no time is left before there are pairs enough for an interval. EpochsHaveToEnd if it is to be measured
        anew with epochs that end.
        """
        self.pool.keep_only({self.keys[BASELINE]})
        self.before = [self.pool.wall(key) for key in self.keys]
        stop = self.request.stop
        try:
            self._end_if_outlived(BASELINE)
            self._launch_all()
            on_pairs(self.pairs)
            while not stop.met(self.pairs) and not self._is_out_of_time():
                if not self.by_turns and self.needs_new_launches:
                    self._relaunch()
                self.add_pair(self._pair())
                on_pairs(self.pairs)
        except _Failed:
            pass
        except NoTimeLeft:
            if len(self.pairs) < FEWEST_PAIRS:
                return None
        return joined(self.earlier, self._comparison_record())

    @property
    def needs_new_launches(self) -> bool:
        """Return whether the next pair needs new launches. After a look has given some, a pair comes first."""
        looked = bool(self.pairs) and self.pairs[-1].launch == self.launch
        return looked and self.request.stop.needs_new_launches(self.pairs)

    def _is_out_of_time(self) -> bool:
        """Return whether the time is up, and there are pairs enough for an interval."""
        return len(self.pairs) >= FEWEST_PAIRS and time.monotonic() > self.deadline

    def go_on_from(self, other: InterleavedComparison) -> None:
        """Take over the pairs of another run of the same comparison.

        The looks at these pairs were had there, and are not repeated. What comes next is measured in new launches.
        """
        self.pairs, self.redone, self.order = list(other.pairs), list(other.redone), other.order
        self.earlier, self.launch = other.earlier, other.launch + 1

    @property
    def has_begun(self) -> bool:
        """Return whether it has pairs of launches of its own, beside those that it goes on from."""
        return any(pair.launch >= 0 for pair in self.pairs)

    def forget_pairs(self) -> None:
        """Forget what was measured so far, since it was of other epochs."""
        self.earlier = None
        self.pairs.clear()

    def _is_alike(self, earlier: ComparisonRecord) -> bool:
        """Return whether epochs ended in the earlier trials if, and only if, they end in the trials to come."""
        return bool(earlier.baseline.observed.get(FAILED)) == bool(self.pool.own_epochs.why)

    # -- launches --

    def _relaunch(self) -> None:
        """Give the next pairs new launches of both arms, so that what a launch keeps for its life averages out."""
        if self.launch + 1 < self.budget.launches:
            self.launch += 1
            self._launch_both_anew()

    def _launch_both_anew(self) -> None:
        self.pool.keep_only(set())
        if not self.by_turns:
            self.pool.start_first(dict(zip(self.keys, self.arms, strict=True)))
        self._launch_all()

    def _begin_anew(self, over: _TrainingEnded) -> None:
        """Launch both arms again, since the training of one has come to its own end."""
        if self.freshly_launched:  # a whole life was too short for a pair
            smaller = {
                side: replace(n, size=max(n.least, n.size / 2), stalls=min(n.stalls, max(n.least, n.stalls / 2)))
                for side, n in self.needs.items()
            }
            if smaller == self.needs:
                failed = over.ended.failed
                what = "the baseline goes on there" if over.goes_on else "make it train for longer"
                reason = f"{failed.reason}; that is too short for a pair of blocks, and {what}"
                raise self._note_failure(over.side, TrialEnded(replace(failed, reason=reason))) from None
            self.needs = smaller
        self.freshly_launched = True
        self.launch += 1
        self._launch_both_anew()

    def _launch_all(self) -> None:
        """Launch both arms. If they do not fit in memory together, launch them by turns from now on."""
        self._trial(BASELINE)
        if self._too_big_together():
            self.by_turns = True
        try:
            self._launch(TREATMENT)
        except TrialEnded as ended:
            if not ended.failed.may_fit_alone or self.by_turns:
                raise self._note_failure(TREATMENT, ended) from None
            self.by_turns = True
            self._trial(TREATMENT)
        if self._too_big_together():
            self.by_turns = True

    def _launch(self, side: int) -> LiveTrial:
        if self.by_turns:
            self.pool.keep_only({self.keys[side]})
        trial = self.pool.launch(self.arms[side], self.keys[side], alone=self.by_turns)
        self._note_record(side, trial)
        needs = self.needs.get(side)
        if needs is None:
            self.needs[side] = self._needs_of(trial, 0.0 if side == TREATMENT else self.request.sample_seconds)
        else:
            self.needs[side] = replace(needs, start=max(needs.start, trial.warm))
        return trial

    @property
    def _needs(self) -> list[Needs]:
        """The needs of the arms that are known, those of the baseline first."""
        return [self.needs[side] for side in sorted(self.needs)]

    def _needs_of(self, trial: LiveTrial, sample_seconds: float) -> Needs:
        pace = max(trial.step_seconds, sample_seconds * trial.step_samples)
        steps = max(self.budget.block_steps_min, self.block_seconds / pace)
        longest = prolonged(self.block_seconds, self.budget.minutes) / pace
        return Needs(
            size=steps * trial.step_samples,
            stalls=min(self.request.least_samples, longest * trial.step_samples),
            least=self.budget.block_steps_min * trial.step_samples,
            unit=trial.unit,
            step=trial.step_samples,
            start=trial.warm,
        )

    def _end_if_outlived(self, side: int) -> None:
        """End an arm's trial that has trained for longer than a launch takes: the other would have to train as far."""
        trial = self.pool.live.get(self.keys[side])
        if trial and trial.outlived():
            self.pool.end(self.keys[side])

    def _note_record(self, side: int, trial: LiveTrial) -> None:
        """Keep the record of the arm's last launch, but with the start-up of its first, which found no caches."""
        first = self.pool.first.setdefault(self.keys[side], trial.record)
        start = {"startup": first.startup, "first_wait": first.first_wait, "warmup_steps": first.warmup_steps}
        self.seen[side] = replace(trial.record, **start)

    def _trial(self, side: int) -> LiveTrial:
        try:
            return self._launch(side)
        except TrialEnded as ended:
            raise self._note_failure(side, ended) from None

    def _too_big_together(self) -> bool:
        """Return whether both arms overfill device or host."""
        arms = dict(zip(self.keys, self.arms, strict=True))
        to_come = [a.settings for key, a in arms.items() if key not in self.pool.live and not self.pool.is_started(key)]
        return not self.pool.has_room(*to_come)

    # -- pairs --

    def add_pair(self, pair: Pair) -> None:
        """Keep a pair."""
        self.pairs.append(pair)
        self._shorten(pair.baseline.seconds)
        for side, block in enumerate((pair.baseline, pair.treatment)):
            if block.interrupted is None:
                self.repeats_in_a_row[side] = 0

    def _shorten(self, seconds: float) -> None:
        """Make the next blocks shorter if the baseline's last one took far longer than the longest that is planned.

        Its length was planned by the pace of a few steps, which may all have been short ones.
        """
        longest = prolonged(self.block_seconds, self.budget.minutes)
        if seconds > FAR_TOO_LONG * longest:
            part = longest / seconds
            self.needs = {
                side: replace(n, size=max(n.least, n.size * part), stalls=n.stalls * part)
                for side, n in self.needs.items()
            }

    def _pair(self) -> Pair:
        first = next(self.order)
        blocks = None
        while blocks is None:
            try:
                blocks = self._blocks(first)
            except _TrainingEnded as over:
                self._begin_anew(over)
        self.freshly_launched = False
        return Pair(
            first=SIDES[first],
            baseline=blocks[BASELINE],
            treatment=blocks[TREATMENT],
            # by turns, an arm that was last in one pair and is first in the next keeps its launch
            launch=self.launch + (1 + len(self.pairs) // 2) * self.by_turns,
        )

    def _blocks(self, first: int) -> dict[int, Block] | None:
        """Return a block of each side over the same samples, or None if both are to be measured again.

        That is so if a block was interrupted by other processes, if an arm is past the first sample already, or if an
        arm was launched anew because both did not fit in memory.
        """
        start, turns, blocks = self._start(first), self.by_turns, {}
        for side in (first, 1 - first):
            self._ask(side, lambda trial: trial.catch_up(start))
            if self._trial(side).soonest > start + ROUNDING:
                return None
            needs = self._needs
            samples = common(sizes(*needs), [n.unit for n in needs], [n.step for n in needs])
            block = self._ask(side, partial(self._block, side=side, start=start, samples=samples))
            if self.by_turns != turns:
                return None
            if self.repeat_if_interrupted(block, side):
                self._trial(side).timed.pop()  # what disturbed it is no stall of the run's own
                self.freshly_launched = False  # it could have been a pair
                return None
            blocks[side] = block
        return blocks

    def repeat_if_interrupted(self, block: Block, side: int) -> bool:
        """Return whether an interrupted block is to be measured again, and note that.

        What interrupts one block after the other is the machine's own state, which no repetition changes.
        """
        if not self.may_repeat(block, side):
            return False
        self.note_repeat(block, side)
        return True

    def may_repeat(self, block: Block, side: int) -> bool:
        """Return whether a block was interrupted, and may be measured again."""
        allowed = self.repeats_in_a_row[side] < MOST_REPEATS_IN_A_ROW and len(self.redone) < self.budget.redo_blocks
        return block.interrupted is not None and allowed

    def note_repeat(self, block: Block, side: int) -> None:
        """Note that a block is measured again."""
        self.repeats_in_a_row[side] += 1
        self.redone.append(f"{SIDES[side]}, pair {len(self.pairs) + 1}: {block.interrupted}")

    def _start(self, first: int) -> float:
        """Bring the live arms close to the sample that both blocks of a pair begin with, and return that sample."""
        if self.by_turns:
            self._end_if_outlived(first)
        self._trial(first)
        live = {side: self.pool.live[key] for side, key in enumerate(self.keys) if key in self.pool.live}
        soonest = [live[side].soonest if side in live else need.start for side, need in self.needs.items()]
        needs = self._needs
        start = common(soonest, [n.step for n in needs], spare=max(sizes(*needs)))
        for side in sorted(live, key=lambda side: side == first):
            self._ask(side, lambda trial: trial.catch_up(start))
        return start

    def _block(self, trial: LiveTrial, side: int, start: float, samples: float) -> Block:
        interference = Interference(self.pool)
        with interference.watched(trial):
            block = trial.block(samples, start, alone=len(self.pool.live) == 1)
        return interference.annotated(trial.amortised(self.arms[side].settings, block, self.request.periodic_events))

    def _ask(self, side: int, ask: Callable[[LiveTrial], T]) -> T:
        """Return the answer of the arm's trial. One that runs out of memory beside the other is asked again alone."""
        while True:
            trial = self._trial(side)
            try:
                answer = ask(trial)
            except TrialEnded as ended:
                other = self.pool.live.get(self.keys[BASELINE])
                goes_on = side == TREATMENT and other is not None and other.trained > trial.trained
                self.pool.end(self.keys[side])
                if ended.failed.may_fit_alone and not self.by_turns:
                    self.by_turns = True
                    continue
                if ended.failed.status is Status.ENDED:
                    raise _TrainingEnded(side, ended, goes_on) from None
                raise self._note_failure(side, ended) from None
            self._note_record(side, trial)
            return answer

    # -- the record --

    def _note_failure(self, side: int, ended: TrialEnded) -> _Failed:
        """Note how an arm failed; EpochsHaveToEnd if it may not in epochs that end."""
        if self.pool.own_epochs.may_help(ended.failed):
            raise EpochsHaveToEnd(ended.failed) from None
        self.failed[side] = self._failed_record(side, ended.failed)
        return _Failed()

    def _failed_record(self, side: int, failed: Failed) -> TrialRecord:
        log = self.pool.log_of[self.keys[side]]
        known = replace(self.seen.get(side) or TrialRecord(arm=self.arms[side].label, status=Status.OK), log=log.name)
        return replace(known, status=failed.status, reason=failed.reason, memory=failed.memory, log_tail=log_tail(log))

    def _comparison_record(self) -> ComparisonRecord:
        for side, key in enumerate(self.keys):
            if (trial := self.pool.live.get(key)) and side not in self.failed:
                try:
                    trial.look_again()
                    self._note_record(side, trial)
                except (TrialEnded, NoTimeLeft):  # its pairs are measured
                    self.pool.end(key)
        return ComparisonRecord(
            baseline=self._trial_record(BASELINE),
            treatment=self._trial_record(TREATMENT),
            pairs=self.pairs,
            redone=self.redone,
            arms=[identity(arm.determinants()) for arm in self.arms],
            by_turns=self.by_turns,
            seed=self.seed,
            cut_within=self.budget.minutes if self._was_cut() else None,
        )

    def _was_cut(self) -> bool:
        """Return whether the end of the time left it undecided."""
        return self._is_out_of_time() and not self.failed and not self.request.stop.met(self.pairs)

    def _trial_record(self, side: int) -> TrialRecord:
        absent = TrialRecord(arm=self.arms[side].label, status=Status.NOT_TESTABLE, reason="was not started")
        found = self.failed.get(side) or self.seen.get(side) or absent
        wall, before = self.pool.wall(self.keys[side]), self.before[side]
        return replace(
            found,
            wall={part: s - before.get(part, 0.0) for part, s in wall.items()},
            steps=self.pool.take_steps(self.keys[side]),
        )


def keys_of(request: ComparisonRequest) -> tuple[str, str]:
    """Return the keys by which the pool knows both arms; the twin of an A/A comparison has one of its own."""
    baseline, treatment = request.baseline, request.treatment
    return identity(baseline.determinants()), identity(treatment.determinants(), request.twin)


class _TrainingEnded(Exception):
    """The end of an arm's training by itself; `goes_on` says whether the baseline has trained beyond it."""

    def __init__(self, side: int, ended: TrialEnded, goes_on: bool):
        super().__init__(str(ended))
        self.side, self.ended, self.goes_on = side, ended, goes_on


class _Failed(Exception):
    """The end of a comparison in which a trial failed. The failure is noted already."""
