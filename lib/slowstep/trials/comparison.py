"""A comparison under way: pairs of blocks of two arms, in random order, until enough is known.

A trial that fails is part of the record and never an exception: the pairs measured before it stay.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from slowstep.factors import Arm
from slowstep.records import Block, ComparisonRecord, Pair, Status, TrialRecord, identity
from slowstep.trials import disturbance
from slowstep.trials.process import TrialEnded, host_memory, log_tail, memory_limit
from slowstep.trials.protocol import ROUNDING, Failed

if TYPE_CHECKING:
    from slowstep.trials.session import Session, Trial

LONG_BLOCKS = 10
"""Blocks are prolonged to meet rare stalls, to so many times `budget.block_seconds` at most."""

HEADROOM = 0.9
"""Share of the memory that two resident arms may fill."""

T = TypeVar("T")

Enough = Callable[[list[Pair]], bool]
"""Whether the pairs so far decide the comparison."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What an arm asks of a pair, in samples."""

    size: float
    """Of a block, at the least; where blocks are whole periods, to within half of one."""
    unit: float
    """That a block holds a multiple of."""
    step: float
    """That an optimizer step trains on."""
    start: float
    """Trained on when a new launch can begin its first block, at the most so far."""


class Comparison:
    """One comparison under way."""

    def __init__(
        self,
        session: Session,
        arms: tuple[Arm, Arm],
        keys: tuple[str, str],
        purpose: str,
        looks: Collection[int],
        events: Collection[str],
        least_samples: float,
    ):
        self.least_samples = least_samples
        """Of each block, so that it meets what comes now and then."""
        self.session, self.arms, self.keys, self.looks, self.events = session, arms, keys, looks, events
        self.seed = int(identity(session.budget.seed, *keys, purpose), 16) % 2**32
        self.order = random.Random(self.seed)
        self.pairs: list[Pair] = []
        self.redone: list[str] = []
        self.by_turns = False
        self.before: list[dict[str, float]] = [{}, {}]
        """Wall time of the arms when this comparison began; the baseline may have served others."""
        self.launch = 0
        """Number of the launches that the next pair is measured in."""
        self.needs: dict[int, Needs] = {}
        """Of each arm, known from its launches."""
        self.failed: dict[int, TrialRecord] = {}
        self.seen: dict[int, TrialRecord] = {}

    def run(self, most: int, enough: Enough) -> None:
        self.session.keep_only(set(self.keys[:1]))
        self.before = [self.session.wall(key) for key in self.keys]
        try:
            self._renew(0)
            self._settle_in()
            while len(self.pairs) < most and not enough(self.pairs):
                if len(self.pairs) in self.looks and not self.by_turns:
                    self._relaunch()
                self.pairs.append(self._pair())
        except _Failed:
            pass

    def _relaunch(self) -> None:
        """Give the next pairs new launches of both arms, so that what a launch keeps for its life averages out."""
        if self.launch + 1 < self.session.budget.launches:
            self.launch += 1
            self.session.keep_only(set())
            self._settle_in()

    def _settle_in(self) -> None:
        """Both arms launched, if they fit; one that runs out of memory beside the other is given the machine alone."""
        self._trial(0)
        if self._too_big_together():
            self.by_turns = True
        try:
            self._launch(1)
        except TrialEnded as ended:
            if ended.failed.status is not Status.OUT_OF_MEMORY or self.by_turns:
                raise self._note(1, ended) from None
            self.by_turns = True
            self._trial(1)
        if self._too_big_together():
            self.by_turns = True

    def _launch(self, side: int) -> Trial:
        if self.by_turns:
            self.session.keep_only({self.keys[side]})
        trial = self.session.launch(self.arms[side], self.keys[side])
        self._see(side, trial)
        budget = self.session.budget
        needs = self.needs.get(side)
        if needs is None:
            steps = max(budget.block_steps_min, budget.block_seconds / trial.step_seconds)
            longest = LONG_BLOCKS * budget.block_seconds / trial.step_seconds * trial.step_samples
            size, step = steps * trial.step_samples, trial.step_samples
            size = max(size, min(self.least_samples, longest))
            self.needs[side] = Needs(size=size, unit=trial.unit, step=step, start=trial.warm)
        else:
            self.needs[side] = replace(needs, start=max(needs.start, trial.warm))
        return trial

    def _renew(self, side: int) -> None:
        """End the arm if it has trained for longer than a launch takes; the other would have to train as far."""
        trial = self.session.resident.get(self.keys[side])
        if trial and trial.outlived:
            self.session.end(self.keys[side])

    def _see(self, side: int, trial: Trial) -> None:
        """Keep what is known of the arm: its last launch, but the start-up of the first, which finds no caches."""
        first = self.session.first.setdefault(self.keys[side], trial.record)
        self.seen[side] = replace(trial.record, startup=first.startup, warmup_steps=first.warmup_steps)

    def _trial(self, side: int) -> Trial:
        try:
            return self._launch(side)
        except TrialEnded as ended:
            raise self._note(side, ended) from None

    def _too_big_together(self) -> bool:
        """Whether what is resident, with as much again for an arm yet to come, overfills the device or the host."""
        live = [self.session.resident[k] for k in dict.fromkeys(self.keys) if k in self.session.resident]
        share = 2 / len(live)
        on_device = [t.record.memory for t in live if t.record.memory.reserved is not None]
        device = sum(m.reserved for m in on_device) * share
        if on_device and device > HEADROOM * on_device[0].limit:
            return True
        held = sum(host_memory(t.process.process.pid) for t in live)
        limit = memory_limit(self.session.budget)
        # a limit that was set is for all that is resident; what is available now comes on top of what is held
        room = limit if self.session.budget.memory_limit_gib is not None else limit + held
        return held * share > HEADROOM * room

    def _pair(self) -> Pair:
        first = self.order.choice((0, 1))
        blocks = None
        while blocks is None:
            blocks = self._blocks(first)
        self.session.measured_seconds += blocks[0].seconds + blocks[1].seconds
        return Pair(
            first="treatment" if first else "baseline",
            baseline=blocks[0],
            treatment=blocks[1],
            # by turns, an arm that was last in one pair and is first in the next keeps its launch
            launch=len(self.pairs) // 2 if self.by_turns else self.launch,
        )

    def _blocks(self, first: int) -> dict[int, Block] | None:
        """A block of each side over the same samples; None if both are to be measured again: the machine was taken away
        from one, one is past the first sample already, or one was launched anew, since both did not fit in memory.
        """
        start, turns, blocks = self._start(first), self.by_turns, {}
        for side in (first, 1 - first):
            self._trained(side, partial(self.session.catch_up, start=start))
            if self._trial(side).soonest > start + ROUNDING:
                return None
            block = self._trained(side, partial(self._block, side=side, start=start))
            if self.by_turns != turns:
                return None
            if block.disturbed is not None and len(self.redone) < self.session.budget.redo_blocks:
                arm = ("baseline", "treatment")[side]
                self.redone.append(f"{arm}, pair {len(self.pairs) + 1}: {block.disturbed}")
                self._trial(side).timed.pop()  # what disturbed it is no stall of the run's own
                return None
            blocks[side] = block
        return blocks

    def _start(self, first: int) -> float:
        """The sample that both blocks of a pair begin with, and the arms that are there brought close to it."""
        if self.by_turns:
            self._renew(first)
        self._trial(first)
        live = {side: self.session.resident[key] for side, key in enumerate(self.keys) if key in self.session.resident}
        soonest = [live[side].soonest if side in live else need.start for side, need in self.needs.items()]
        needs = self.needs.values()
        start = common(soonest, [n.step for n in needs], spare=max(n.size for n in needs))
        for side in sorted(live, key=lambda side: side == first):
            self._trained(side, partial(self.session.catch_up, start=start))
        return start

    def _block(self, trial: Trial, side: int, start: float) -> Block:
        needs = self.needs.values()
        samples = common([n.size for n in needs], [n.unit for n in needs], [n.step for n in needs])
        before = disturbance.read(self._own())
        block = self.session.block(trial, samples, start)
        after = disturbance.read(self._own())
        whole = self.session.amortised(trial, self.arms[side].settings, block, self.events)
        # a long save must not hide what disturbed a short block
        found = disturbance.between(before, after) or disturbance.between(before, disturbance.read(self._own()))
        return replace(whole, disturbed=found)

    def _own(self) -> float:
        """Processor seconds of all that is resident so far."""
        return sum(trial.process.cpu_seconds() for trial in self.session.resident.values())

    def _trained(self, side: int, ask: Callable[[Trial], T]) -> T:
        """What the arm's trial answers; one that runs out of memory beside the other is asked again by itself."""
        while True:
            trial = self._trial(side)
            try:
                answer = ask(trial)
            except TrialEnded as ended:
                self.session.end(self.keys[side])
                if ended.failed.status is Status.OUT_OF_MEMORY and not self.by_turns:
                    self.by_turns = True
                    continue
                raise self._note(side, ended) from None
            self._see(side, trial)
            return answer

    def _note(self, side: int, ended: TrialEnded) -> _Failed:
        self.failed[side] = self._record(side, ended.failed)
        return _Failed()

    def _record(self, side: int, failed: Failed) -> TrialRecord:
        log = self.session.log_of[self.keys[side]]
        known = replace(self.seen.get(side) or TrialRecord(arm=self.arms[side].label, status=Status.OK), log=log.name)
        return replace(known, status=failed.status, reason=failed.reason, memory=failed.memory, log_tail=log_tail(log))

    def record(self) -> ComparisonRecord:
        def side(i: int) -> TrialRecord:
            absent = TrialRecord(arm=self.arms[i].label, status=Status.NOT_TESTABLE, reason="was not started")
            found = self.failed.get(i) or self.seen.get(i) or absent
            wall = self.session.wall(self.keys[i])
            return replace(
                found,
                wall={part: s - self.before[i].get(part, 0.0) for part, s in wall.items()},
                steps=self.session.timed_steps(self.keys[i]),
            )

        return ComparisonRecord(
            baseline=side(0),
            treatment=side(1),
            pairs=self.pairs,
            redone=self.redone,
            by_turns=self.by_turns,
            seed=self.seed,
        )


def common(least: Collection[float], *units: Collection[float], spare: float | None = None) -> float:
    """The fewest samples that are enough for each arm and whole units of both.

    Of several kinds of units the first is taken with which they are at most `spare` more than enough, or no more than
    twice as many as the arms need by themselves; if there is none, or batches hold now more and now fewer samples, they
    are merely enough.
    """
    enough = max(least)
    for kind in units:
        if all(abs(unit - round(unit)) < ROUNDING for unit in kind):
            unit = math.lcm(*map(round, kind))
            together = math.ceil(enough / unit - ROUNDING) * unit
            most = 2 * max(math.ceil(enough / own - ROUNDING) * own for own in kind)
            if together <= (most if spare is None else enough + spare):
                return together
    return enough


class _Failed(Exception):
    """A trial failed and is noted; the comparison ends here."""
