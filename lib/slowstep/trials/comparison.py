"""A comparison under way: pairs of blocks of two arms, in random order, until enough is known.

A trial that fails is part of the record and never an exception: the pairs measured before it stay.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from slowstep.factors import Arm
from slowstep.records import Block, ComparisonRecord, Pair, Status, TrialRecord, identity
from slowstep.trials.process import TrialEnded, host_memory, log_tail, memory_limit
from slowstep.trials.protocol import Failed

if TYPE_CHECKING:
    from slowstep.trials.session import Session, Trial

HEADROOM = 0.9
"""Share of the memory that two resident arms may fill."""

Enough = Callable[[list[Pair]], bool]
"""Whether the pairs so far decide the comparison."""


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
    ):
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
        self.wanted: dict[int, tuple[float, float]] = {}
        """Of each arm: samples that its blocks need at the least, and the samples that they hold a multiple of."""
        self.failed: dict[int, TrialRecord] = {}
        self.seen: dict[int, TrialRecord] = {}

    def run(self, most: int, enough: Enough) -> None:
        self.session.keep_only(set(self.keys[:1]))
        self.before = [self.session.wall(key) for key in self.keys]
        try:
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
        if not self.pairs:
            steps = max(budget.block_steps_min, budget.block_seconds / trial.step_seconds)
            self.wanted[side] = steps * trial.step_samples, trial.unit
        return trial

    def _see(self, side: int, trial: Trial) -> None:
        """Keep what is known of the arm: its last launch, but the start-up of the first, which finds no caches."""
        first = self.seen.get(side, trial.record)
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
        blocks: dict[int, Block] = {}
        start = self._start(first)
        for side in (first, 1 - first):
            blocks[side] = self._undisturbed(side, start)
        return Pair(
            first="treatment" if first else "baseline",
            baseline=blocks[0],
            treatment=blocks[1],
            # by turns, an arm that was last in one pair and is first in the next keeps its launch
            launch=len(self.pairs) // 2 if self.by_turns else self.launch,
        )

    def _start(self, first: int) -> float:
        """The sample that both blocks of a pair begin with. An arm that is far ahead, since it served other comparisons
        or the other was launched anew, is launched anew itself where the other would take longer to catch up."""
        self._trial(first)
        live = {side: self.session.resident[key] for side, key in enumerate(self.keys) if key in self.session.resident}
        ahead = max(live, key=lambda side: live[side].soonest)
        trial = live[ahead]
        lead = trial.soonest - min(t.soonest for t in live.values()) if len(live) == 2 else trial.soonest
        avoidable = min(lead / trial.step_samples, trial.trained - trial.warm) * trial.step_seconds
        if avoidable > trial.record.wall["start-up and warm-up"]:
            self.session.end(self.keys[ahead])
            live[ahead] = self._trial(ahead)
        return common([trial.soonest for trial in live.values()], [trial.step_samples for trial in live.values()])

    def _undisturbed(self, side: int, start: float) -> Block:
        samples = common(*zip(*self.wanted.values(), strict=True))
        while True:
            trial = self._trial(side)
            others = [t for t in self.session.resident.values() if t is not trial]
            try:
                block = self.session.block(trial, samples, others, start)
                block = self.session.amortised(trial, self.arms[side].settings, block, self.events)
            except TrialEnded as ended:
                self.session.end(self.keys[side])
                if ended.failed.status is Status.OUT_OF_MEMORY and not self.by_turns:
                    self.by_turns = True  # the other arm was beside it; alone it may fit
                    continue
                raise self._note(side, ended) from None
            self._see(side, trial)
            if block.disturbed is None or len(self.redone) >= self.session.budget.redo_blocks:
                self.session.measured_seconds += block.seconds
                return block
            self.redone.append(f"{('baseline', 'treatment')[side]}, pair {len(self.pairs) + 1}: {block.disturbed}")

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
            return replace(found, wall={part: s - self.before[i].get(part, 0.0) for part, s in wall.items()})

        return ComparisonRecord(
            baseline=side(0),
            treatment=side(1),
            pairs=self.pairs,
            redone=self.redone,
            by_turns=self.by_turns,
            seed=self.seed,
        )


def common(least: Collection[float], units: Collection[float]) -> float:
    """The fewest samples that are enough for each arm and whole units of both; merely enough, if that would be more
    than twice as many, and each arm then has whole units of its own."""
    enough = max(least)
    alone = max(math.ceil(enough / unit) * unit for unit in units)
    if any(abs(unit - round(unit)) > 1e-6 for unit in units):  # packed: no two batches hold as many
        return enough
    unit = math.lcm(*map(round, units))
    together = math.ceil(enough / unit) * unit
    return together if together <= 2 * alone else enough


class _Failed(Exception):
    """A trial failed and is noted; the comparison ends here."""
