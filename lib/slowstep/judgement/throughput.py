"""Throughput in every unit, and the one unit that is judged.

Arms are compared on work done a second: useful tokens, or samples where there are no tokens. Seconds per step are
shown and never judged, since two arms' steps need not be the same work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slowstep.records import Block, Pair


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Totals over blocks divided by their total time, never a mean of rates. None means not measured."""

    seconds_per_step: float
    samples_per_second: float
    padded_tokens_per_second: float | None
    useful_tokens_per_second: float | None
    loss_tokens_per_second: float | None
    useful_share: float | None
    """Useful tokens as a share of all positions computed, 0 to 1; the rest is padding."""
    cut_share: float | None
    """Tokens that truncation removed, as a share of all tokens that the examples had, 0 to 1."""


def throughput(blocks: Sequence[Block]) -> Throughput:
    """Return the throughput of `blocks` (at least one) in all units."""
    seconds = sum(b.seconds for b in blocks)
    steps = sum(b.steps for b in blocks)

    def total(name: str) -> int | None:
        values = [getattr(b.work, name) for b in blocks]
        return None if None in values else sum(values)

    def rate(count: int | None) -> float | None:
        return None if count is None else count / seconds

    padded, useful, cut = total("padded_tokens"), total("useful_tokens"), total("cut_tokens")
    return Throughput(
        seconds_per_step=seconds / steps,
        samples_per_second=total("samples") / seconds,
        padded_tokens_per_second=rate(padded),
        useful_tokens_per_second=rate(useful),
        loss_tokens_per_second=rate(total("loss_tokens")),
        useful_share=useful / padded if padded and useful is not None else None,
        cut_share=cut / (useful + cut) if cut is not None and useful else None,
    )


def works(*sides: Sequence[Block]) -> list[list[float]]:
    """Return the work of each block of each side, all in the judged unit.

    That is useful tokens, or samples unless every block has some: a mask may mean something else than what it is read
    as, and without one rows may be padded in one arm alone. Where no samples were seen, a step is one.
    """
    blocks = [block for side in sides for block in side]
    by_tokens = _by_tokens(blocks)
    by_samples = all(block.work.samples for block in blocks)

    def work(block: Block) -> float:
        return float(block.work.useful_tokens if by_tokens else block.work.samples if by_samples else block.steps)

    return [[work(block) for block in side] for side in sides]


def unit(blocks: Sequence[Block]) -> str:
    """Return the judged unit's name."""
    return "useful tokens/s" if _by_tokens(blocks) else "samples/s"


def sides(pairs: Sequence[Pair]) -> tuple[list[Block], list[Block]]:
    """Return the blocks of the baseline and those of the treatment, in the order of their pairs."""
    return [p.baseline for p in pairs], [p.treatment for p in pairs]


def samples_per_step(blocks: Sequence[Block]) -> float:
    """Return the mean samples of an optimizer step; 0 without blocks."""
    return sum(b.work.samples for b in blocks) / sum(b.steps for b in blocks) if blocks else 0.0


def seconds_per_sample(blocks: Sequence[Block]) -> float:
    """Return the mean seconds of a sample; 0 without blocks."""
    return sum(b.seconds for b in blocks) / sum(b.work.samples for b in blocks) if blocks else 0.0


def seconds_per_step(blocks: Sequence[Block]) -> float:
    """Return the mean seconds of an optimizer step; 0 without blocks."""
    return sum(b.seconds for b in blocks) / sum(b.steps for b in blocks) if blocks else 0.0


def _by_tokens(blocks: Sequence[Block]) -> bool:
    return all(block.work.useful_tokens for block in blocks)


def speed_up(share: float) -> float:
    """Return how many times as fast a run is without a share of its time, 0 to 1; more than 0.99 counts as 0.99.

    Amdahl's law: 1 / (1 - share).
    """
    return 1.0 / (1.0 - min(max(share, 0.0), 0.99))
