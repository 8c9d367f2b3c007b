"""The warm-up of a trial: steps until they get no faster, or are as fast as the arm is known to be."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from statistics import fmean, median_high

from slowstep.judgement.observed_sizes import ranks_of
from slowstep.launch.trial_process import TrialProcess
from slowstep.measure.live_trial import START_UP, TIMEOUT_FACTOR, LiveTrial, host_peak
from slowstep.records import Block, Status, TrialRecord
from slowstep_probe.trial.messages import BlockDone, Observe, TrainBlock

CHUNK_STEPS, MOST_CHUNKS = 3, 12
"""The steps that are timed together, and the most of such chunks."""

SETTLED_RATIO = 1.05
"""The ratio by which a chunk of steps has to be faster than the one before; else the warm-up ends."""

ONE_OFF_RATIO = 3.0
"""The ratio by which a chunk is slower than the fastest one if something may have happened in it that happens once: a
model is compiled after its first step. If the next one is as slow, that is the pace."""


class _Chunks:
    """The chunks of steps of a warm-up so far, which ends when they get no faster, or are as fast as is known."""

    def __init__(self, first: Block, known_pace: float):
        self.known_pace, self.settled = known_pace, False
        self.means: list[float] = []
        """The mean seconds a step of each chunk."""
        self.samples = [_samples_a_step(first)]
        """The mean samples a step of the first step, and of each chunk."""
        self._fastest = first.seconds

    @property
    def steps(self) -> int:
        """The optimizer steps so far, the first one included."""
        return 1 + CHUNK_STEPS * len(self.means)

    @property
    def seconds(self) -> float:
        """The seconds of all chunks."""
        return CHUNK_STEPS * sum(self.means)

    @property
    def over(self) -> bool:
        """True if the warm-up ends: its steps have settled, or there were enough of them."""
        return self.settled or len(self.means) >= MOST_CHUNKS

    def add(self, block: Block) -> None:
        """Add a chunk. One that something slowed which happens once, such as compiling, settles nothing."""
        mean = block.seconds / CHUNK_STEPS
        once = mean > ONE_OFF_RATIO * self._fastest and not self.means
        self.settled = not once and (self._fastest / mean < SETTLED_RATIO or mean / SETTLED_RATIO < self.known_pace)
        self._fastest = min(self._fastest, mean)
        self.means.append(mean)
        self.samples.append(_samples_a_step(block))


def warmed_up(process: TrialProcess, known_pace: float = 0.0) -> LiveTrial:
    """Return the trial of `process`, warm; TrialEnded if it fails.

    `known_pace` is the pace of the arm in seconds a step, 0 if it is unknown.
    """
    budget, ready, began = process.budget, process.ready(), time.perf_counter()
    first: BlockDone = process.ask(TrainBlock(steps=1), budget.startup_timeout_seconds)
    startup = dict(ready.startup) | {"first step": first.block.seconds}
    chunks = _Chunks(first.block, known_pace)
    while not chunks.over:
        last: BlockDone = process.ask(TrainBlock(steps=CHUNK_STEPS), CHUNK_STEPS * budget.step_timeout_seconds)
        chunks.add(last.block)
    seen = process.ask(Observe(), budget.step_timeout_seconds)
    workers = seen.facts.get("dataloader_num_workers") or 0
    trained, pace, samples = chunks.steps, _pace(chunks.means), chunks.samples
    if workers:  # what they made while the first steps were slow would feed the next ones
        last = _drain(process, workers, pace)
        trained, pace = trained + last.trained, last.block.seconds / CHUNK_STEPS
        samples = [*samples, _samples_a_step(last.block)]
    step_samples = median_high(samples)  # one of them may hold an epoch's short last batch
    record = TrialRecord(
        arm=process.arm.label,
        status=Status.OK,
        startup=startup | {"warm-up": chunks.seconds},
        wall={START_UP: process.startup_seconds + time.perf_counter() - began},
        first_wait=_first_wait(first.block, startup, seen.facts),
        warmup_steps=chunks.steps,
        settled=chunks.settled,
        observed=seen.facts | ({"devices": len(last.devices)} if last.devices else {}),
        losses=last.losses,
        learning_rates=last.learning_rates,
        memory=host_peak(process, last.memory),
        log=process.log.name,
    )
    return LiveTrial(
        process=process,
        record=record,
        device=ready.device,
        periodic_events=ready.periodic_events,
        step_seconds=pace,
        step_samples=step_samples,
        period=period(seen.facts.get("event_period") or 1, workers),
        discard=workers + 1,
        position=last.position,
        warm=last.position + (workers + 1) * step_samples,
        began=process.started,
        trained=trained,
        devices=last.devices,
        retries=last.memory.retries or 0,
    )


def _drain(process: TrialProcess, workers: int, pace: float) -> BlockDone:
    """Train on until the batches are used up that loader workers hold ready, and for a chunk of steps after that."""
    request = TrainBlock(steps=CHUNK_STEPS, discard=workers + 1, drain=True)
    expected = (CHUNK_STEPS + 2 * (workers + 1)) * pace
    return process.ask(request, max(process.budget.startup_timeout_seconds, TIMEOUT_FACTOR * expected))


def _first_wait(first: Block, startup: Mapping[str, float], facts: Mapping[str, object]) -> float:
    """Return the seconds, at the most, that a launch waited for its first batch.

    Several ranks are ready only after their first step. Theirs is in the start-up, and so is a batch that was fetched
    before the first step.
    """
    waited = first.phases.get("data", 0.0)
    if waited and ranks_of(facts) == 1:
        return waited
    return startup.get("first step boundary", 0.0) + first.seconds


def _pace(means: Sequence[float]) -> float:
    """Return the pace, in seconds a step, by the last two chunks: where some steps are long, one may hold none."""
    before, last = means[-2:][0], means[-1]
    return last if before > ONE_OFF_RATIO * last else fmean((before, last))


def period(events: int, workers: int) -> int:
    """Return the steps after which a trial repeats itself: its periodic events, every `events` steps, and the bursts.

    The batches of several workers come in bursts. A long period of the events holds many bursts as it is.
    """
    return events if events >= workers else math.lcm(events, workers)


def _samples_a_step(block: Block) -> float:
    return block.work.samples / block.steps or 1.0
