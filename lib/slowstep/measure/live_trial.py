"""One live trial: its process, what is known about it, and what it is asked for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from slowstep.launch.trial_process import TrialProcess
from slowstep.records import Block, Memory, Steps, TrialRecord
from slowstep.settings import Settings
from slowstep.settings.events import of_whole, steps_between
from slowstep.trial.protocol import BlockDone, PeriodicEvent, PeriodicEventDone, Run

PATIENCE = 20.0
"""A block counts as hanging when it takes this many times what the pace of the warm-up lets expect."""

START_UP, BLOCKS, DISCARDED, OBSERVED = "start-up and warm-up", "measured blocks", "discarded steps", "observed steps"
"""The parts of a trial's life, as `TrialRecord.wall` names them."""


@dataclass
class LiveTrial:
    """A trial that is warmed up. Positions and sizes are in samples, times in seconds."""

    process: TrialProcess
    record: TrialRecord
    device: str
    periodic_events: list[str]
    step_seconds: float
    step_samples: float
    period: int
    """Blocks hold a multiple of this many steps, so that each has as many saves, evaluations and bursts of workers."""
    discard: int
    """Steps that are discarded before a block at least, while batches that lay ready are used up."""
    position: int
    """Samples trained on since the launch."""
    warm: float
    """Samples that it had trained on at least when its first block could begin."""
    began: float
    """`time.perf_counter()` of the launch."""
    trained: int
    """Optimizer steps since the launch."""
    timed: list[Steps] = field(default_factory=list)
    """Its steady steps that no record holds yet, answer by answer."""

    @property
    def soonest(self) -> float:
        """Samples that it will have trained on when its next block begins, at least."""
        return self.position + self.discard * self.step_samples

    @property
    def unit(self) -> float:
        """Samples that its blocks hold a multiple of."""
        return self.period * self.step_samples

    @property
    def outlived(self) -> bool:
        """Whether it has served for longer than its launch took: an arm that begins anew would have to train as far."""
        wall = Counter(self.record.wall)
        return wall[BLOCKS] + wall[DISCARDED] > wall[START_UP]

    @property
    def wall(self) -> Counter[str]:
        """Seconds of its life by part, with the time that it waited for its turn."""
        waited = time.perf_counter() - self.began - sum(self.record.wall.values())
        return Counter(self.record.wall) + Counter({"waiting for its turn": max(0.0, waited)})

    def block(self, samples: float, start: float = 0.0) -> Block:
        """Return a block of about so many samples; its first is the one numbered `start`, or the next possible one."""
        request = Run(samples=samples, period=self.period, discard=self.discard, start=start)
        ahead = max(self.soonest, start) - self.position
        measured = self.run(request, ahead + samples + self.unit, BLOCKS)
        observed = self.record.observed | {"recompilations": measured.recompilations}
        memory = host_peak(self.process, measured.memory)
        self.record = replace(self.record, memory=memory, observed=observed, losses=measured.losses)
        return measured.block

    def catch_up(self, start: float) -> None:
        """Train on until a block can soon begin at the sample `start`."""
        behind = start - self.soonest - 2 * self.step_samples  # batches may hold more samples than they did so far
        if behind > 0:
            self.run(Run(samples=behind), behind, DISCARDED)
            self.timed.append(self.timed.pop().since(self.discard))  # the first ones may have found batches ready

    def run(self, request: Run, samples: float, part: str) -> BlockDone:
        """Return the answer to a request that takes about so many samples.

        The seconds of the block count as that `part` of the trial's life, and the rest as discarded.
        """
        expected = samples / self.step_samples * self.step_seconds
        asked = time.perf_counter()
        timeout = max(self.process.budget.step_timeout_seconds, PATIENCE * expected)
        measured: BlockDone = self.process.ask(request, timeout)
        spent = time.perf_counter() - asked
        self.trained += measured.trained
        self.position = measured.position
        self.timed.append(measured.steps)
        wall = Counter(self.record.wall)
        wall.update({DISCARDED: spent - measured.block.seconds})
        wall.update({part: measured.block.seconds})
        self.record = replace(self.record, wall=dict(wall))
        return measured

    def do(self, event: str) -> PeriodicEventDone:
        """Make a periodic event happen once, now."""
        return self.process.ask(PeriodicEvent(event=event), self.process.budget.startup_timeout_seconds)

    def amortised(self, settings: Settings, block: Block, events: Collection[str]) -> Block:
        """Return the block with its share of periodic events: each happens once, and counts as often as in the job."""
        phases, added = dict(block.phases), {}
        for event in sorted(set(events) & set(self.periodic_events)):
            between = steps_between(settings.run, event, block.work.samples / block.steps)
            if between is None:
                continue
            done = self.do(event)
            added[event] = done.seconds * of_whole(settings.run, done.samples) * block.steps / between
            phases[event] += added[event]
        return replace(block, seconds=block.seconds + sum(added.values()), phases=phases, amortised=added)

    def take_steps(self) -> Steps:
        """Return the steady steps since they were last taken."""
        taken = sum(self.timed, Steps())
        self.timed.clear()
        return taken


def host_peak(process: TrialProcess, peaks: Memory) -> Memory:
    """Return the peaks with the most of the host's memory that the trial's processes held together."""
    limit = peaks.limit or process.limit
    return replace(peaks, host=max(peaks.host or 0, process.host_peak()), limit=limit)
