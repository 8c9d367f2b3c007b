"""The real job's hours and cost, summed over its parts: start, steps, logging, saves, evaluations."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from slowstep.judgement.comparison import FEWEST_PAIRS, launches_of
from slowstep.judgement.drift import UNKNOWN, Drift
from slowstep.judgement.events_alone import event_seconds
from slowstep.judgement.intervals import interval, paired
from slowstep.judgement.later_epochs import unlike_first
from slowstep.judgement.left_out import NAMES, left_out, seconds_after_epoch
from slowstep.judgement.observed_sizes import loaders_of_step, ranks_of
from slowstep.judgement.run_facts import NO_STALLS, RunFacts, StallFactors
from slowstep.judgement.throughput import samples_per_step, seconds_per_step
from slowstep.records import Block, ComparisonRecord, EventRecord, TrialRecord
from slowstep.settings import Settings
from slowstep.settings.periodic_events import is_rare, occurrences, steps_between, strategy

START_UP_PARTS = ("imports", "process", "data", "base", "model", "trainer", "first step boundary")
"""The parts of a start-up before the first step, as `TrialRecord.startup` names them."""

START = ("start-up", "warm-up and compilation")
"""The parts of a job that its steps do not take, as `Projection.parts` names them."""

HELD_UP = "something else on the machine held the run up while it was compared with itself, and not later"
"""Why a job is not projected if something else on the machine held up the launches that its pace would come from."""

IN_MEMORY = "most of its steps found in memory files that the first ones read from disk, as the job may have to"
"""Why a job is not projected if its run waits for files on disk, and most measured steps found them in memory."""

OTHER_DATA = 0.05
"""The data of a trial are not the job's if their epochs differ by more than this part, and by more than a step."""

NEGLIGIBLE = 0.005
"""What comes after epochs is a part of its own if it takes more than this share of the steps' time."""

AFTER_EPOCH = "what the program did after the first epoch took {:.2g} s in the survey, taken for each"
"""What is assumed of the seconds after an epoch, as a clause."""


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Seconds by part and in all.

    The interval holds the spread of blocks, stalls and events, and that a job is a single launch at another moment.
    """

    parts: dict[str, float]
    seconds: float
    low: float
    high: float
    steps: int
    price_per_hour: float | None
    currency: str
    devices: int = 1
    """The devices that an hour is paid for, each with the price of an hour."""
    assumed: str = ""
    """The assumption made where the parameter file says nothing; empty if there is none."""
    left_out: str = ""
    """What the job does that is not in `parts`, as clauses; empty if nothing is known to be left out."""
    beside: tuple[float, float] | None = None
    """The lower and upper end of `seconds` if the job takes exactly as long without the change as is expected: what the
    change alone leaves open. None for a job without a change."""
    drift: Drift = UNKNOWN
    """The drift of the run's speed at other moments from the one that the job is projected with."""

    def cost(self, seconds: float) -> float | None:
        """Return the cost of `seconds`, in `currency`; None without a price."""
        return None if self.price_per_hour is None else seconds / 3600 * self.price_per_hour * self.devices


def devices(trial: TrialRecord, on_nodes: Sequence[int] = ()) -> int:
    """Return the number of devices that a trial trains on; a host counts as one. `on_nodes` are its ranks on each node.

    A process may train on several, and several processes on one. In records that do not tell it each process has one.
    """
    if trial.observed.get("device") != "cuda":
        return max(1, sum(ranks > 0 for ranks in on_nodes))
    return int(trial.observed.get("devices") or ranks_of(trial.observed))


def unknown(settings: Settings, noise: ComparisonRecord) -> str:
    """Return what is missing for a projection of the job, as a clause; an empty text if nothing is."""
    if len(noise.pairs) < FEWEST_PAIRS:
        return f"the run was compared with itself in fewer than {FEWEST_PAIRS} pairs"
    if not settings.job.epochs:
        given = "--set job.epochs=… job.samples=… before --" if settings.command else "job.epochs, job.samples"
        return f"its size is not given ({given})"
    if not settings.job.samples and not samples_of_epoch(noise):
        return "job.samples does not say how large an epoch is"
    return unlike_first(settings.run) if settings.job.epochs > 1 else ""


def unlike_the_job(facts: RunFacts) -> str:
    """Return why the comparison with itself does not show the job's seconds, as a clause; an empty text if it does."""
    if facts.was_held_up:
        return HELD_UP
    return IN_MEMORY if facts.first_reads and facts.first_reads.matters else ""


def project(
    settings: Settings,
    noise: ComparisonRecord,
    events: EventRecord | None,
    change: ComparisonRecord | None = None,
    stalls: StallFactors = NO_STALLS,
    drift: Drift = UNKNOWN,
) -> Projection | None:
    """Return the job of `settings.job` at the baseline's speed, measured in `noise`.

    None if its size is not known, or if the pairs are too few for an interval.

    With a `change` this is the job after the change: at the baseline's speed, times the change that those pairs
    measured. A change is known better than a speed, since the machine's drift falls on both sides of a pair. `stalls`
    says how much longer steps are once stalls count that the blocks of `noise` did not meet. By the `drift`, all that
    the job does may take more or less time than when it was measured. Where `job.samples` is not given, an epoch is
    that of the trials' data. Steps, saves and evaluations are counted for the same epoch.
    """
    if unknown(settings, noise) or (change and len(change.pairs) < FEWEST_PAIRS):
        return None
    settings, assumed = _with_known_epoch(settings, noise)
    job, trial = settings.job, change.treatment if change else noise.baseline
    observed = noise.baseline.observed  # the pace comes from there
    pace = _pace_of_job(job.samples, noise, change, stalls)
    blocks = [p.treatment for p in (change or noise).pairs]
    per_step, samples = samples_per_step(blocks), job.samples * job.epochs
    steps = math.ceil(_steps_of_epoch(settings, trial, per_step) * job.epochs)
    training = samples * pace.mean
    by_event = _seconds_of_events(settings, blocks, events, steps)
    parts = start_of(trial, per_step * pace.mean) | {"training steps": training}
    parts |= {NAMES[event]: seconds.mean for event, seconds in by_event.items()}
    after_epoch = seconds_after_epoch(settings, observed) or 0.0
    if int(job.epochs) * after_epoch > NEGLIGIBLE * training:
        parts["after epochs"] = int(job.epochs) * after_epoch
        assumed.append(AFTER_EPOCH.format(after_epoch))
    seconds = sum(parts.values())
    rest = seconds - training
    low, high = _ends_of_job(seconds, rest, samples, pace, by_event.values(), drift)
    return Projection(
        parts=parts,
        seconds=seconds,
        low=low,
        high=high,
        steps=steps,
        price_per_hour=job.price_per_hour,
        currency=job.currency,
        devices=devices(trial, settings.on_nodes),
        assumed="; ".join(assumed),
        left_out=left_out(settings, events, by_event.keys(), observed),
        beside=pace.alone and (rest + samples * pace.alone[0], rest + samples * pace.alone[1]),
        drift=drift,
    )


def _ends_of_job(
    seconds: float, rest: float, samples: float, pace: _Pace, events: Collection[_Seconds], drift: Drift
) -> tuple[float, float]:
    """Return both ends of the seconds of a job, widened by the drift; `rest` of them trains on none of the samples."""
    low = rest + samples * pace.low - sum(event.mean - event.least for event in events)
    high = rest + samples * pace.high + sum(event.most - event.mean for event in events)
    below = math.hypot(math.log(seconds / low), drift.half) if low > 0 else math.inf
    above = math.hypot(math.log(high / seconds), drift.half)
    return seconds * math.exp(-below), seconds * math.exp(above)


def _with_known_epoch(settings: Settings, noise: ComparisonRecord) -> tuple[Settings, list[str]]:
    """Return the settings with the samples of an epoch, and what is assumed of them, as clauses."""
    assumed = []
    if not settings.job.samples:
        known = samples_of_epoch(noise)
        settings = replace(settings, job=replace(settings.job, samples=known))
        assumed += [f"an epoch is taken to be the {known:,} samples of the trials' data, as job.samples is not given"]
    if (several := loaders_of_step(noise.baseline.observed)) > 1:
        assumed += [f"of the {several} loaders that a step draws from, that ends an epoch whose samples are counted"]
    return settings, assumed


def _seconds_of_events(
    settings: Settings, blocks: Sequence[Block], events: EventRecord | None, steps: int
) -> dict[str, _Seconds]:
    """Return the seconds in the job of each periodic event that comes too rarely for a block and was measured."""
    found = {}
    for event in NAMES:
        if not is_rare(settings.run, event) or strategy(settings.run, event) == "best":
            continue  # the measured steps include it, or it is not known how often it happens
        by_itself = event_seconds(settings.run, events, event)
        beside = _seconds_beside_blocks(blocks, settings, event)
        if beside or by_itself:
            times = occurrences(settings.run, event, steps)
            once = by_itself.once if by_itself and times else 0.0
            each = [beside] * 3 if beside else [by_itself.mean, by_itself.least, by_itself.most]
            found[event] = _Seconds(*(times * seconds + once for seconds in each))
    return found


def start_of(trial: TrialRecord, step: float) -> dict[str, float]:
    """Return the seconds, by part, that a launch takes beside its steps; `step` is the seconds of a settled one."""
    start = trial.startup
    ramp = start.get("first step", 0.0) + start.get("warm-up", 0.0) - trial.warmup_steps * step
    return dict(zip(START, (sum(start.get(part, 0.0) for part in START_UP_PARTS), max(0.0, ramp)), strict=True))


def later_start(record: ComparisonRecord) -> float:
    """Return the seconds that a launch takes longer beside its steps with a change than without it."""

    def seconds(side: str) -> float:
        blocks = [getattr(pair, side) for pair in record.pairs]
        return sum(start_of(getattr(record, side), seconds_per_step(blocks)).values())

    return seconds("treatment") - seconds("baseline")


def _steps_of_epoch(settings: Settings, trial: TrialRecord, per_step: float) -> int:
    """Return the optimizer steps in an epoch of the job, whose `job.samples` is given or taken from the trials' data.

    The loader's own number counts, as it knows of packing and of a last batch that is dropped. Only a command may be
    tried on other data than the job's, say on a part of it. A run that a file describes has an epoch as long as the
    job's.
    """
    seen, expected = trial.observed.get("epoch_steps"), settings.job.samples / per_step
    others = settings.command is not None and seen and abs(seen - expected) > max(1.0, OTHER_DATA * expected)
    return int(seen) if seen and not others else math.ceil(expected)


def samples_of_epoch(noise: ComparisonRecord) -> int | None:
    """Return the samples that the baseline trains on in an epoch of its data; None where its loader has no length."""
    blocks, steps = [p.baseline for p in noise.pairs], noise.baseline.observed.get("epoch_steps")
    if not (blocks and steps):
        return None
    return round(int(steps) * sum(b.work.samples for b in blocks) / sum(b.steps for b in blocks)) or None


class _Seconds(NamedTuple):
    """The seconds that a part of the job takes."""

    mean: float
    least: float
    most: float


@dataclass(frozen=True, kw_only=True)
class _Pace:
    """The seconds of a sample, with the ends of their interval."""

    mean: float
    low: float
    high: float
    alone: tuple[float, float] | None = None
    """The ends if the baseline's pace were known exactly: what a change alone leaves open. None without a change."""


def _pace_of_job(samples: int, noise: ComparisonRecord, change: ComparisonRecord | None, stalls: StallFactors) -> _Pace:
    """Return the seconds a sample of the job: those of the baseline, times a change if there is one."""
    mean, half = (stalls.mean * x for x in _baseline_pace(samples, noise))
    below, above = (math.hypot(half / mean, factor - 1) for factor in (stalls.shorter, stalls.longer))
    if change:
        return _pace_after(change, mean, below, above)
    return _Pace(mean=mean, low=mean * max(0.0, 1 - below), high=mean * (1 + above))


def _baseline_pace(samples: int, noise: ComparisonRecord) -> tuple[float, float]:
    """Return the baseline's seconds a sample of the job, and half the width of their interval.

    The blocks see a small part of the data, and its batches may be shorter or longer than the job's. So where the
    positions of a whole epoch are known, the time a position is measured instead. Both blocks of a pair train on about
    the same batches, so a pair is one measurement and not two.
    """
    positions = noise.baseline.observed.get("epoch_padded_tokens")
    pairs = [(p.baseline, p.treatment) for p in noise.pairs]
    known = positions and all(b.work.padded_tokens for pair in pairs for b in pair)

    def amount(block: Block) -> float:
        return block.work.padded_tokens * samples / positions if known else block.work.samples

    paces = [sum(b.seconds for b in pair) / sum(amount(b) for b in pair) for pair in pairs]
    whole = [b for pair in pairs for b in pair]
    pace = sum(b.seconds for b in whole) / sum(amount(b) for b in whole)
    return pace, interval(paces).half


def _pace_after(change: ComparisonRecord, mean: float, below: float, above: float) -> _Pace:
    """Return the pace after a change that its pairs measured.

    The baseline's pace is `mean`. It may be less by the part `below` of it, and more by the part `above`.
    """
    slower = paired(
        [math.log(_block_pace(p.treatment) / _block_pace(p.baseline)) for p in change.pairs], launches_of(change.pairs)
    )
    after = mean * slower.ratio
    return _Pace(
        mean=after,
        low=after * math.exp(-math.hypot(below, slower.half)),
        high=after * math.exp(math.hypot(above, slower.half)),
        alone=(mean * slower.low, mean * slower.high),
    )


def _seconds_beside_blocks(blocks: Sequence[Block], settings: Settings, event: str) -> float | None:
    """Return the mean seconds of an occurrence that was made to happen beside each block; None if there are none."""
    between = [steps_between(settings.run, event, b.work.samples / b.steps) for b in blocks if event in b.amortised]
    shares = [b.amortised[event] / b.steps for b in blocks if event in b.amortised]
    return sum(n * s for n, s in zip(between, shares, strict=True)) / len(shares) if shares else None


def _block_pace(block: Block) -> float:
    """Return the seconds a sample, without the block's shares of periodic events: the job counts its own."""
    return (block.seconds - sum(block.amortised.values())) / block.work.samples
