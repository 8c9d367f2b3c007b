"""Node against node: which one is slower with the same training, each with its own processes alone.

All nodes are held against the first, by pairs of blocks that are interleaved in time. A duration is measured by one
host's clock, and a ratio of two rates needs no clock in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slowstep.judgement.intervals import Interval


@dataclass(frozen=True, kw_only=True)
class SlowNode:
    """A node that is slower than another one, beyond chance."""

    number: int
    against: int
    """The node that it is held against."""
    gain: Interval
    """What that one trains more in the same time, as a log-ratio."""


def slow_node(against_first: Mapping[int, Interval]) -> SlowNode | None:
    """Return the node that is slower than another, beyond chance; the slowest if there are several; None if none is.

    `against_first` holds what each other node trains in the time in which the first one trains 1. The first one is the
    slow one if each other is faster than it, and is held against the least fast of them, which is then waited for.
    """
    behind = {node: effect for node, effect in against_first.items() if effect.high < 1}
    if behind:
        number = min(behind, key=lambda node: behind[node].ratio)
        return SlowNode(number=number, against=0, gain=_inverse(behind[number]))
    if not against_first or any(effect.low <= 1 for effect in against_first.values()):
        return None
    next_one = min(against_first, key=lambda node: against_first[node].ratio)
    return SlowNode(number=0, against=next_one, gain=against_first[next_one])


def node_of_rank(rank: int, on_nodes: Sequence[int]) -> int | None:
    """Return the node of a rank, where `on_nodes` holds the number of ranks on each node; None if it has none."""
    first = 0
    for node, ranks in enumerate(on_nodes):
        if first <= rank < first + ranks:
            return node
        first += ranks
    return None


def _inverse(effect: Interval) -> Interval:
    return replace(effect, mean=-effect.mean, lower=-effect.upper, upper=-effect.lower)
