"""What is known about the baseline before any factor is tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slowstep.judgement.flops import TokenFlops, token_flops
from slowstep.judgement.intervals import Interval, interval
from slowstep.judgement.units import Throughput, throughput
from slowstep.records import PHASES, Block, ComparisonRecord


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
    length = mean_length(blocks, observed)
    return BaselineFacts(
        blocks=blocks,
        shares=shares,
        throughput=throughput(blocks),
        length=length,
        flops=token_flops(observed, length) if length else None,
        observed=observed,
        noise=noise,
    )


def mean_length(blocks: Sequence[Block], observed: dict[str, object]) -> float | None:
    """Mean positions a sequence, padding included; None where there are no tokens."""
    padded = [b.work.padded_tokens for b in blocks]
    micro_batches = sum(b.steps for b in blocks) * int(observed.get("gradient_accumulation_steps") or 1)
    sequences = micro_batches * int(observed.get("per_device_train_batch_size") or 0)
    return sum(padded) / sequences if sequences and None not in padded else None
