"""One live trial: its process, what is known about it, and the requests to it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from slowstep.launch.trial_process import TrialEnded, TrialProcess
from slowstep.measure import stood_still
from slowstep.records import Block, Memory, Status, Steps, TrialRecord
from slowstep.settings import Settings
from slowstep.settings.periodic_events import of_whole, steps_between
from slowstep_probe.trial.messages import BlockDone, Failed, Observe, PeriodicEvent, PeriodicEventDone, TrainBlock

TIMEOUT_FACTOR = 20.0
"""The factor by which a block may take longer than expected by the warm-up's pace, before it counts as hanging."""

START_UP, BLOCKS, DISCARDED, OBSERVED = "start-up and warm-up", "measured blocks", "discarded steps", "observed steps"
"""The parts of a trial's life, as `TrialRecord.wall` names them."""

CROWDED = "the device's memory was too full beside another trial, so that its allocator had to give back what it kept"
"""The reason of a trial that goes on by itself."""

WRITTEN_FACTS = ("frozen_bytes_written", "frozen_bytes_written_on_device")
"""The facts that say how much of a shared base was written to: on a host the trial has copies of its own."""


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
    """The steps after which a trial repeats itself. A block holds a multiple of them, so that each has as many saves,
    evaluations and bursts of workers."""
    discard: int
    """The least steps that are discarded before a block, while batches that lay ready are used up."""
    position: int
    """Samples trained on since the launch."""
    warm: float
    """The least samples that it had trained on when its first block could begin."""
    began: float
    """The time of the launch, by `time.perf_counter()`."""
    trained: int
    """Optimizer steps since the launch."""
    devices: list[str] = field(default_factory=list)
    """The UUIDs of the devices that it trains on."""
    retries: int = 0
    """How often its allocator had found no memory on the device by its last answer."""
    happened: set[str] = field(default_factory=set)
    """The periodic events that it was made to do in a comparison."""
    timed: list[Steps] = field(default_factory=list)
    """The steady steps that no record holds yet, answer by answer."""

    @property
    def soonest(self) -> float:
        """The least samples that it will have trained on when its next block begins."""
        return self.position + self.discard * self.step_samples

    @property
    def unit(self) -> float:
        """The samples of a period: its blocks hold a multiple of them."""
        return self.period * self.step_samples

    def outlived(self, others: int = 1) -> bool:
        """Return whether it has trained for longer than its launch took, if so many `others` have to train as far."""
        launch = self.record.wall.get(START_UP, 0.0)
        return others * (sum(self.record.wall.values()) - launch) > launch

    @property
    def wall(self) -> Counter[str]:
        """The seconds of its life by part, with the time that it waited for its turn."""
        waited = time.perf_counter() - self.began - sum(self.record.wall.values())
        return Counter(self.record.wall) + Counter({"waiting for its turn": max(0.0, waited)})

    def block(self, samples: float, start: float = 0.0, alone: bool = True) -> Block:
        """Return a block of about `samples` samples that begins at the sample `start`, or at the next possible one.

        TrialEnded if the trial fails, or if its device was too full for it beside another trial: an allocator that
        gives back what it kept and tries again makes steps slow, and that is no property of the arm.
        """
        request = TrainBlock(samples=samples, period=self.period, discard=self.discard, start=start)
        retries = self.retries
        ahead = max(self.soonest, start) - self.position
        measured = self.run(request, ahead + samples + self.unit, BLOCKS)
        observed = self.record.observed | {"recompilations": measured.recompilations}
        memory = host_peak(self.process, measured.memory)
        if not alone and (memory.retries or 0) > retries:
            self.timed.pop()  # its slow steps are no property of the arm
            raise TrialEnded(Failed(status=Status.OUT_OF_MEMORY, reason=CROWDED, memory=memory))
        losses, rates = measured.losses, measured.learning_rates
        self.record = replace(self.record, memory=memory, observed=observed, losses=losses, learning_rates=rates)
        return measured.block

    def catch_up(self, start: float) -> None:
        """Train on until a block can soon begin at the sample `start`."""
        behind = start - self.soonest - 2 * self.step_samples  # batches may hold more samples than they did so far
        if behind > 0:
            self.run(TrainBlock(samples=behind), behind, DISCARDED)
            self.timed.append(self.timed.pop().since(self.discard))  # the first ones may have found batches ready

    def run(self, request: TrainBlock, samples: float, part: str) -> BlockDone:
        """Return the answer to a request that takes about `samples` samples; TrialEnded if the trial fails.

        The seconds of the block count as that `part` of the trial's life, and the rest as discarded steps.
        """
        expected = samples / self.step_samples * self.step_seconds
        timeout = max(self.process.budget.step_timeout_seconds, TIMEOUT_FACTOR * expected)
        before, asked = self.process.bytes_fetched(), time.perf_counter()
        with stood_still.watched() as watch:
            measured: BlockDone = self.process.ask(request, timeout)
        spent = time.perf_counter() - asked
        self.trained += measured.trained
        self.position, self.devices = measured.position, measured.devices
        self.retries = measured.memory.retries or 0
        steps = with_fetched(measured, before, self.process.bytes_fetched())
        self.timed.append(Steps() if watch.why else steps)  # what stood still is no stall of the run's own
        wall = Counter(self.record.wall)
        wall.update({DISCARDED: spent - measured.block.seconds})
        wall.update({part: measured.block.seconds})
        self.record = replace(self.record, wall=dict(wall))
        return replace(measured, block=replace(measured.block, interrupted=watch.why))

    def look_again(self) -> None:
        """Update the facts that may have changed since the warm-up, if the trial maps a base that is shared."""
        if self.record.observed.keys() >= {*WRITTEN_FACTS}:
            seen = self.process.ask(Observe(), self.process.budget.step_timeout_seconds).facts
            now = {fact: seen.get(fact) for fact in WRITTEN_FACTS}
            self.record = replace(self.record, observed=self.record.observed | now)

    def do(self, event: str, *, looks: bool = False) -> PeriodicEventDone:
        """Make a periodic event happen once now, and return what it took; TrialEnded if the trial fails.

        With `looks` the stack is looked at meanwhile, and the lines of code are told that the time goes to.
        """
        request = PeriodicEvent(event=event, looks=looks)
        return self.process.ask(request, self.process.budget.startup_timeout_seconds)

    def amortised(self, settings: Settings, block: Block, events: Collection[str]) -> Block:
        """Return the block with its share of periodic events: each happens once, and counts as often as in the job."""
        phases, added = dict(block.phases), {}
        for event in sorted(set(events) & set(self.periodic_events)):
            between = steps_between(settings.run, event, block.work.samples / block.steps)
            if between is None:
                continue
            if event not in self.happened:  # what it costs once, as to compile a pass, is no part of each
                self.do(event)
                self.happened.add(event)
            done = self.do(event)
            seconds = of_whole(settings.run, done.seconds, done.samples, done.fixed)
            added[event] = seconds * block.steps / between
            phases[event] += added[event]
        return replace(block, seconds=block.seconds + sum(added.values()), phases=phases, amortised=added)

    def take_steps(self) -> Steps:
        """Return the steady steps since they were last taken."""
        taken = sum(self.timed, Steps())
        self.timed.clear()
        return taken


def with_fetched(measured: BlockDone, before: int | None, after: int | None) -> Steps:
    """Return the steady steps of an answer with the bytes that each fetched from storage, all steps of it alike.

    `before` and `after` are those that the trial's processes had fetched by then. One that ends between two readings
    may be missing in the later one.
    """
    if before is None or after is None:
        return measured.steps
    each = round(max(0, after - before) / max(1, measured.trained))
    return replace(measured.steps, fetched=[each] * len(measured.steps))


def host_peak(process: TrialProcess, peaks: Memory) -> Memory:
    """Return `peaks` with the most host memory that the trial's process tree held."""
    limit = peaks.limit or process.limit
    return replace(peaks, host=max(peaks.host or 0, process.host_peak()), limit=limit)
