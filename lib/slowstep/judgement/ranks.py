"""Ranks that wait for one of them: which, in which phase, and for how much of the time.

All ranks take equally long for a step, since each waits for the others where gradients are exchanged. So a slow rank
shows itself by what it spends in its own phases: it takes longer there than the others, which spend the difference
waiting. The rank and the phase with the greatest excess over the other ranks are the culprit, among the phases in which
ranks do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slowstep.judgement.intervals import Interval, interval
from slowstep.records import PHASES, Block, TrialRecord
from slowstep_probe.measured import WHERE_RANKS_WAIT

UNLIKE = "unlike_ranks"
"""The fact that holds the names of facts in which ranks differ."""

CONFIRMED = 0.3
"""The share of a culprit's excess that the others must be seen to wait beyond what it waits itself."""


@dataclass(frozen=True, kw_only=True)
class Skew:
    """What a slow rank costs."""

    rank: int
    phase: str
    share: Interval
    """The part of the time, 0 to 1, by which the rank takes longer in that phase than any other."""
    covered: float
    """The part of what the other ranks wait beyond the slow one that its excess explains; more than 1 if all of it."""


def unlike_ranks(trial: TrialRecord) -> list[str]:
    """Return the names of the facts in which the ranks of a trial differ."""
    found = trial.observed.get(UNLIKE)
    return [str(name) for name in found] if isinstance(found, list) else []


def shares_of_ranks(blocks: Sequence[Block]) -> dict[int, dict[str, float]]:
    """Return the share of the time, 0 to 1, that each rank spends in each phase."""
    ranked = [block for block in blocks if block.ranks]
    if not ranked:
        return {}
    whole = sum(block.seconds for block in ranked)
    return {
        rank: {phase: sum(b.ranks[rank].phases.get(phase, 0.0) for b in ranked) / whole for phase in PHASES}
        for rank in range(len(ranked[0].ranks))
    }


def collectives(blocks: Sequence[Block]) -> dict[str, float]:
    """Return the share of the time, 0 to 1, in calls of collectives by phase, on the mean of all ranks."""
    ranked = [block for block in blocks if block.ranks]
    whole = sum(block.seconds * len(block.ranks) for block in ranked)
    found: dict[str, float] = {}
    for block in ranked:
        for one in block.ranks:
            for phase, seconds in one.collectives.items():
                found[phase] = found.get(phase, 0.0) + seconds / whole
    return found


def skew(blocks: Sequence[Block], least: float) -> Skew | None:
    """Return the rank that the others wait for, or None if none takes at least the share `least` longer than they do.

    The excess is judged block by block, as the blocks of a comparison are, and must be seen where the others wait.
    """
    ranked = [block for block in blocks if len(block.ranks) > 1]
    if len(ranked) < 2:
        return None
    seconds = np.array([[[r.phases.get(p, 0.0) for p in PHASES] for r in b.ranks] for b in ranked])
    whole = np.array([block.seconds for block in ranked])
    n = seconds.shape[1]
    others = (seconds.sum(axis=1, keepdims=True) - seconds) / (n - 1)
    excess = (seconds - others) / whole[:, None, None]
    waiting = WHERE_RANKS_WAIT.union(*(one.collectives for block in ranked for one in block.ranks))
    own = [number for number, phase in enumerate(PHASES) if phase not in waiting]
    mean = excess.mean(axis=0)[:, own]
    rank, column = np.unravel_index(int(mean.argmax()), mean.shape)
    phase = PHASES[own[column]]
    # a step ends with the slowest rank, so what this one costs is what it takes beyond the next slowest
    next_slowest = np.delete(seconds[:, :, own[column]], rank, axis=1).max(axis=1)
    found = interval((seconds[:, rank, own[column]] - next_slowest) / whole)
    waited = -excess[:, rank, [number for number in range(len(PHASES)) if number not in own]].sum(axis=1).mean()
    if found.lower < least or waited < CONFIRMED * found.mean:
        return None
    return Skew(rank=int(rank), phase=phase, share=found, covered=float(found.mean / waited))


def moves_with_data(before: Skew, with_swapped_data: Sequence[Block], least: float) -> bool | None:
    """Return whether the slow rank is another one with each rank on the next one's data; None if none is slow then.

    Rank r then has the data of rank r + 1. A slowness that comes from the data moves with it to the rank before.
    """
    after = skew(with_swapped_data, least)
    if after is None or after.phase != before.phase:
        return None
    size = len(with_swapped_data[0].ranks)
    if after.rank == before.rank:
        return False
    return True if after.rank == (before.rank - 1) % size else None


def node_of_rank(rank: int, on_nodes: Sequence[int]) -> int | None:
    """Return the node of a rank, where `on_nodes` holds the number of ranks on each node; None if it has none."""
    first = 0
    for node, ranks in enumerate(on_nodes):
        if first <= rank < first + ranks:
            return node
        first += ranks
    return None
