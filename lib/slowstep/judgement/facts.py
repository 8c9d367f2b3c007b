"""What is known about the baseline before any factor is tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slowstep.judgement.flops import TokenFlops, token_flops
from slowstep.judgement.intervals import Interval, interval
from slowstep.judgement.units import Throughput, throughput
from slowstep.records import PHASES, Block, ComparisonRecord, EventRecord
from slowstep.settings import Settings
from slowstep.settings.events import EVENTS, is_rare, of_whole, steps_between


@dataclass(frozen=True, kw_only=True)
class BaselineFacts:
    """From the A/A comparison: several launches of the baseline, so their differences are in the intervals."""

    blocks: Sequence[Block]
    shares: dict[str, Interval]
    """Share of wall time a phase, 0 to 1, with its interval over blocks (of the share itself, not its logarithm)."""
    throughput: Throughput
    length: float | None
    """Mean positions a sequence, padding included."""
    flops: TokenFlops | None
    observed: dict[str, object]
    noise: Interval
    """The A/A comparison."""
    data_ceiling: Interval | None = None
    """What batches ready in memory brought, once that is measured."""
    occasional: Mapping[str, float | None] = field(default_factory=dict)
    """For each event that is too rare to meet in a block: the share of the job's time, 0 to 1, that it takes at most;
    None where that is not known."""
    peak_flops: float | None = None
    """The most that the device could compute in a second."""

    def share(self, phase: str) -> float:
        """The mean share of a phase."""
        return self.shares[phase].mean

    def most(self, phase: str) -> float:
        """The upper end of a phase's share: what a bound must rest on."""
        return min(self.shares[phase].upper, 0.99)


def baseline_facts(record: ComparisonRecord, noise: Interval) -> BaselineFacts | None:
    """The facts in an A/A record, or None if it holds no blocks."""
    blocks = [b for pair in record.pairs for b in (pair.baseline, pair.treatment)]
    if not blocks:
        return None
    shares = {phase: interval([b.phases[phase] / b.seconds for b in blocks]) for phase in PHASES}
    observed = record.baseline.observed
    return BaselineFacts(
        blocks=blocks,
        shares=shares,
        throughput=throughput(blocks),
        length=mean_length(blocks, observed),
        flops=flops_of(blocks, observed),
        observed=observed,
        noise=noise,
    )


def flops_of(blocks: Sequence[Block], observed: dict[str, object]) -> TokenFlops | None:
    """FLOPs a token of these blocks, at their mean length; None without tokens, or of a model of unknown sizes."""
    length = mean_length(blocks, observed)
    return token_flops(observed, length) if length else None


def occasional_shares(settings: Settings, blocks: Sequence[Block], events: EventRecord) -> dict[str, float | None]:
    """Share of the job's time a rare event, by its longest occurrence; None where it was not measured, or nobody knows
    how often it comes."""
    steps, samples = sum(b.steps for b in blocks), sum(b.work.samples for b in blocks)
    step = sum(b.seconds for b in blocks) / steps
    each: dict[str, float | None] = {}
    for event in (e for e in EVENTS if is_rare(settings, e)):
        seconds, seen = events.seconds.get(event), events.samples.get(event)
        between = steps_between(settings, event, samples / steps)
        each[event] = max(seconds) * of_whole(settings, seen) / between if seconds and between else None
    total = step + sum(seconds or 0.0 for seconds in each.values())
    return {event: None if seconds is None else seconds / total for event, seconds in each.items()}


def mean_length(blocks: Sequence[Block], observed: dict[str, object]) -> float | None:
    """Mean positions a sequence, padding included; None where there are no tokens."""
    padded = [b.work.padded_tokens for b in blocks]
    micro_batches = sum(b.steps for b in blocks) * int(observed.get("gradient_accumulation_steps") or 1)
    sequences = micro_batches * int(observed.get("per_device_train_batch_size") or 0)
    return sum(padded) / sequences if sequences and None not in padded else None
