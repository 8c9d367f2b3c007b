"""Node against node: which one is slower with the same training, each with its own processes alone.

All nodes are held against the first, by pairs of blocks that are interleaved in time. A duration is measured by one
host's clock, and a ratio of two rates needs no clock in common.
"""

from __future__ import annotations

from collections.abc import Mapping

from slowstep.judgement.intervals import Interval


def slowest(against_first: Mapping[int, Interval]) -> int | None:
    """Return the node that is slower than another, beyond chance; the slowest if there are several; None if none is.

    `against_first` holds what each other node trains in the time in which the first one trains 1.
    """
    behind = {node: effect for node, effect in against_first.items() if effect.high < 1}
    if behind:
        return min(behind, key=lambda node: behind[node].ratio)
    # the first is the slowest if each other one is faster, beyond chance
    return 0 if against_first and all(effect.low > 1 for effect in against_first.values()) else None
