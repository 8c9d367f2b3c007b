"""The warm-up of a trial: steps until they get no faster, or are as fast as the arm is known to be."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from statistics import fmean, median_high

from slowstep.judgement.observed_sizes import ranks_of
from slowstep.launch.trial_process import TrialProcess
from slowstep.measure.live_trial import PATIENCE, START_UP, LiveTrial, host_peak
from slowstep.records import Block, Status, TrialRecord
from slowstep_probe.trial.messages import BlockDone, Observe, TrainBlock

CHUNK, CHUNKS_MAX = 3, 12
"""The steps that are timed together, and the most of such chunks."""

SETTLED = 1.05
"""The ratio by which a chunk of steps has to be faster than the one before; else the warm-up ends."""

ONCE = 3.0
"""The ratio by which a chunk is slower than the fastest one if something may have happened in it that happens once: a
model is compiled after its first step. If the next one is as slow, that is the pace."""


def warmed_up(process: TrialProcess, known_pace: float = 0.0) -> LiveTrial:
    """Return the trial of `process`, warm; TrialEnded if it fails.

    `known_pace` is the pace of the arm in seconds a step, 0 if it is unknown.
    """
    budget, ready, began = process.budget, process.ready(), time.perf_counter()
    first: BlockDone = process.ask(TrainBlock(steps=1), budget.startup_timeout_seconds)
    startup = dict(ready.startup) | {"first step": first.block.seconds}
    fastest, steps, settled, spent = first.block.seconds, 1, False, 0.0
    means = list[float]()
    held = [_samples_a_step(first.block)]
    for _ in range(CHUNKS_MAX):
        chunk: BlockDone = process.ask(TrainBlock(steps=CHUNK), CHUNK * budget.step_timeout_seconds)
        mean = chunk.block.seconds / CHUNK
        steps, spent = steps + CHUNK, spent + chunk.block.seconds
        held.append(_samples_a_step(chunk.block))
        happened = mean > ONCE * fastest and not means
        settled = not happened and (fastest / mean < SETTLED or mean / SETTLED < known_pace)
        fastest = min(fastest, mean)
        means.append(mean)
        if settled:
            break
    seen = process.ask(Observe(), budget.step_timeout_seconds)
    workers = seen.facts.get("dataloader_num_workers") or 0
    trained, pace = steps, _pace(means)
    if workers:  # what they made while the first steps were slow would feed the next ones
        request = TrainBlock(steps=CHUNK, discard=workers + 1, drain=True)
        expected = (CHUNK + 2 * (workers + 1)) * pace
        chunk = process.ask(request, max(budget.startup_timeout_seconds, PATIENCE * expected))
        pace = chunk.block.seconds / CHUNK
        trained += chunk.trained
        held.append(_samples_a_step(chunk.block))
    step_samples = median_high(held)  # one of them may hold an epoch's short last batch
    record = TrialRecord(
        arm=process.arm.label,
        status=Status.OK,
        startup=startup | {"warm-up": spent},
        wall={START_UP: process.startup_seconds + time.perf_counter() - began},
        first_wait=_first_wait(first.block, startup, seen.facts),
        warmup_steps=steps,
        settled=settled,
        observed=seen.facts | ({"devices": len(chunk.devices)} if chunk.devices else {}),
        losses=chunk.losses,
        learning_rates=chunk.learning_rates,
        memory=host_peak(process, chunk.memory),
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
        position=chunk.position,
        warm=chunk.position + (workers + 1) * step_samples,
        began=process.started,
        trained=trained,
        devices=chunk.devices,
        retries=chunk.memory.retries or 0,
    )


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
    return last if before > ONCE * last else fmean((before, last))


def period(events: int, workers: int) -> int:
    """Return the steps after which a trial repeats itself: its periodic events, every `events` steps, and the bursts.

    The batches of several workers come in bursts. A long period of the events holds many bursts as it is.
    """
    return events if events >= workers else math.lcm(events, workers)


def _samples_a_step(block: Block) -> float:
    return block.work.samples / block.steps or 1.0
