"""The samples that the next blocks hold: enough for each arm, and the same ones for both blocks of a pair."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from slowstep_probe.trial.messages import ROUNDING


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The needs of an arm in a pair, in samples."""

    size: float
    """The samples of a block of the planned seconds; if blocks are whole periods, to within half a period."""
    stalls: float
    """The samples of a block that is long enough to meet a rare stall, as far as this arm has the time for it."""
    least: float
    """The samples below which blocks are made no shorter, however short the training is."""
    unit: float
    """The samples of a period (`LiveTrial.period`): a block holds a multiple of them."""
    step: float
    """The samples of an optimizer step."""
    start: float
    """The samples that a new launch has trained on when its first block can begin: the most that was seen so far."""


def sizes(baseline: Needs, *treatments: Needs) -> list[float]:
    """Return the samples that a block has to hold at least, by each of the rules that ask for some.

    Both blocks of a pair take together as long as if each had its own size: an arm that is thirty times as fast would
    need thirty times the samples by itself, on which the other one trains for thirty blocks. In a round, the pair that
    needs most counts, so that a slow arm takes nothing from the others. Rare stalls are waited for at the baseline's
    pace, for which they are known.
    """
    pairs = [2 / (1 / baseline.size + 1 / one.size) for one in treatments] or [baseline.size]
    return [*pairs, *(one.least for one in (baseline, *treatments)), baseline.stalls]


def common(least: Collection[float], *units: Collection[float], spare: float | None = None) -> float:
    """Return the fewest samples that are enough for each arm (`least`) and whole units of both.

    Several kinds of `units` are tried in turn. The first is taken with which the samples are at most `spare` more than
    enough; without `spare`, at most twice what the arms need by themselves. If none fits, or batches differ in samples,
    the samples are merely enough.
    """
    enough = max(least)
    for kind in units:
        if all(abs(unit - round(unit)) < ROUNDING for unit in kind):
            unit = math.lcm(*map(round, kind))
            together = math.ceil(enough / unit - ROUNDING) * unit
            most = 2 * max(math.ceil(enough / own - ROUNDING) * own for own in kind)
            if together <= (most if spare is None else enough + spare):
                return together
    return enough
