"""The real job's hours and cost, from all its costs: start, steps, logging, saves, evaluations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slowstep.judgement.comparison import launches
from slowstep.judgement.intervals import interval, paired
from slowstep.records import Block, EventRecord, Pair, TrialRecord
from slowstep.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Seconds by part, and the whole with the interval that the blocks' spread gives."""

    parts: dict[str, float]
    seconds: float
    low: float
    high: float
    steps: int
    price_per_hour: float | None
    currency: str

    def cost(self, seconds: float) -> float | None:
        """What `seconds` cost."""
        return None if self.price_per_hour is None else seconds / 3600 * self.price_per_hour


def project(
    settings: Settings,
    blocks: Sequence[Block],
    trial: TrialRecord,
    events: EventRecord | None,
    pairs: Sequence[Pair] = (),
) -> Projection | None:
    """The job of `settings.job` at the speed of `blocks`; None if the job's size is not given.

    With `pairs` it is the job after a change: the baseline's speed in `blocks`, times the change that the pairs
    measured. A change is known better than a speed, since the machine's drift falls on both sides of a pair.
    """
    job = settings.job
    if not job.samples or not job.epochs or not blocks:
        return None
    pace = sum(b.seconds for b in blocks) / sum(b.work.samples for b in blocks)
    half = interval([b.seconds / b.work.samples for b in blocks]).half
    if pairs:
        change = paired([math.log(_pace(p.treatment) / _pace(p.baseline)) for p in pairs], launches(pairs))
        spread = math.hypot(half / pace, change.half)
        pace *= change.ratio
        half = pace * spread
        blocks = [p.treatment for p in pairs]
    per_step = sum(b.work.samples for b in blocks) / sum(b.steps for b in blocks)
    per_epoch = math.ceil(job.samples / per_step)
    steps = math.ceil(per_epoch * job.epochs)
    samples = job.samples * job.epochs
    training = samples * pace
    start = trial.startup
    settled = per_step * pace
    ramp = start.get("first step", 0.0) + start.get("warm-up", 0.0) - trial.warmup_steps * settled
    parts = {
        "start-up": sum(start.get(p, 0.0) for p in ("imports", "process", "data", "model", "trainer", "first border")),
        "warm-up and compilation": max(0.0, ramp),
        "training steps": training,
    }
    for event, name in (("save", "saving"), ("evaluate", "evaluating")):
        seconds = (events.seconds.get(event) if events else None) or []
        if seconds:
            # an evaluation was timed over as many samples as the trial had; the job evaluates all of them
            seen = events.samples.get(event)
            scale = settings.dataset.eval_samples / seen if seen else 1.0
            parts[name] = _times(settings, event, steps) * scale * sum(seconds) / len(seconds)
    rest = sum(parts.values()) - training
    return Projection(
        parts=parts,
        seconds=rest + training,
        low=rest + samples * max(0.0, pace - half),
        high=rest + samples * (pace + half),
        steps=steps,
        price_per_hour=job.price_per_hour,
        currency=job.currency,
    )


def _pace(block: Block) -> float:
    """Seconds a sample."""
    return block.seconds / block.work.samples


def _times(settings: Settings, event: str, steps: int) -> int:
    """How often the job does `event`; Trainer also does it after the last step."""
    key = {"save": "save", "evaluate": "eval"}[event]
    strategy = str(settings.training(f"{key}_strategy") or "no")
    if strategy == "epoch":
        return math.ceil(settings.job.epochs)
    if strategy == "steps":
        every = settings.training(f"{key}_steps") or settings.training("logging_steps") or steps
        every = every * steps if every < 1 else every
        return math.ceil(steps / every)
    return 0
