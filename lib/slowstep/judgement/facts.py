"""What is known about the baseline before any factor is tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from slowstep.judgement.flops import TokenFlops, token_flops
from slowstep.judgement.intervals import Interval
from slowstep.judgement.timeline import Evidence, Timeline, steps_to_see, timeline
from slowstep.judgement.units import Throughput, throughput
from slowstep.records import PHASES, Block, ComparisonRecord, EventRecord, ProfileRecord, Steps
from slowstep.settings import Settings
from slowstep.settings.events import EVENTS, is_rare, of_whole, steps_between

WAITS = ("data", "host_to_device", "log", "save", "evaluate", "other")
"""The phases in which a run waits for something that may come by now and then only."""


@dataclass(frozen=True, kw_only=True)
class BaselineFacts:
    """From every steady step of the baseline that the investigation has timed, in whatever comparison."""

    blocks: Sequence[Block]
    """Of the A/A comparison: several launches of the baseline, measured as a whole."""
    noise_steps: Sequence[Steps]
    """The steps of that comparison."""
    timeline: Timeline
    throughput: Throughput
    length: float | None
    """Mean positions a sequence, padding included."""
    flops: TokenFlops | None
    observed: dict[str, object]
    noise: Interval
    """The A/A comparison."""
    data_ceiling: Interval | None = None
    """What batches ready in memory brought, once that is measured."""
    periodic_events: Mapping[str, float | None] = field(default_factory=dict)
    """For each event that is too rare to meet in a block: the share of the job's time, 0 to 1, that it takes at most;
    None where that is not known."""
    peak_flops: float | None = None
    """The most that the device could compute in a second."""
    profile: ProfileRecord | None = None
    """Some steps of the baseline under the profiler, if they were looked at."""
    rarest_stall: int = 500
    """Waits are refuted by a bound only if stalls as rare as one in so many steps could not have been missed."""

    @cached_property
    def shares(self) -> dict[str, Interval]:
        """Share of the wall time a phase, 0 to 1, with its interval."""
        return {phase: self.timeline.share(phase) for phase in PHASES}

    def share(self, phase: str) -> float:
        """The mean share of a phase."""
        return self.shares[phase].mean

    def most(self, *phases: str) -> float:
        """The upper end of the share of some phases together: what a bound must rest on."""
        return min((self.timeline.share(*phases) if len(phases) > 1 else self.shares[phases[0]]).upper, 0.99)

    @cached_property
    def stalls_beyond_blocks(self) -> float:
        """How many times as long steps take on the mean, with waits that the blocks were too few to meet."""
        return (1 - timeline(self.noise_steps).in_stalls(*WAITS)) / (1 - self.timeline.in_stalls(*WAITS))

    @property
    def evidence(self) -> Evidence:
        """What the shares rest on."""
        return self.timeline.evidence

    @property
    def data_evidence(self) -> Evidence:
        """What is known of the waits for data: no more steps than the trials' examples make, if the job has others."""
        known, distinct = self.evidence, self.observed.get("distinct_steps")
        if not isinstance(distinct, int) or distinct >= min(known.steps, self.observed.get("epoch_steps") or 0):
            return known
        return replace(known, steps=distinct, limit="the trials' data hold no more, and the job's do")

    def sees_stalls(self, evidence: Evidence) -> bool:
        """Whether stalls as rare as they are asked about would have been met."""
        return evidence.steps >= steps_to_see(self.rarest_stall)


def baseline_facts(
    record: ComparisonRecord, noise: Interval, every: Sequence[Steps] = (), rarest_stall: int = 500
) -> BaselineFacts | None:
    """The facts in an A/A record, the shares from `every` step of the baseline that is known, or else the record's own.

    None if the record holds no blocks.
    """
    blocks = [b for pair in record.pairs for b in (pair.baseline, pair.treatment)]
    if not blocks:
        return None
    observed = record.baseline.observed
    own = [*record.baseline.steps, *record.treatment.steps]
    return BaselineFacts(
        blocks=blocks,
        noise_steps=own,
        timeline=timeline(every or own),
        throughput=throughput(blocks),
        length=mean_length(blocks, observed),
        flops=flops_of(blocks, observed),
        observed=observed,
        noise=noise,
        rarest_stall=rarest_stall,
    )


def flops_of(blocks: Sequence[Block], observed: dict[str, object]) -> TokenFlops | None:
    """FLOPs a token of these blocks, at their mean length; None without tokens, or of a model of unknown sizes."""
    length = mean_length(blocks, observed)
    return token_flops(observed, length) if length else None


def periodic_event_shares(settings: Settings, blocks: Sequence[Block], events: EventRecord) -> dict[str, float | None]:
    """Share of the job's time a rare event, by its longest occurrence; None where it was not measured, or nobody knows
    how often it comes."""
    steps, samples = sum(b.steps for b in blocks), sum(b.work.samples for b in blocks)
    step = sum(b.seconds for b in blocks) / steps
    each: dict[str, float | None] = {}
    for event in (e for e in EVENTS if is_rare(settings.run, e)):
        seconds, seen = events.seconds.get(event), events.samples.get(event)
        between = steps_between(settings.run, event, samples / steps)
        each[event] = max(seconds) * of_whole(settings.run, seen) / between if seconds and between else None
    total = step + sum(seconds or 0.0 for seconds in each.values())
    return {event: None if seconds is None else seconds / total for event, seconds in each.items()}


def mean_length(blocks: Sequence[Block], observed: dict[str, object]) -> float | None:
    """Mean positions a sequence, padding included; None where there are no tokens."""
    padded = [b.work.padded_tokens for b in blocks]
    micro_batches = sum(b.steps for b in blocks) * int(observed.get("gradient_accumulation_steps") or 1)
    sequences = micro_batches * int(observed.get("per_device_train_batch_size") or 0)
    return sum(padded) / sequences if sequences and None not in padded else None
