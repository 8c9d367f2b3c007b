"""Node against node: which ones are slow with the same training, each with its own processes alone.

All nodes are held against the first, by pairs of blocks that are interleaved in time. A duration is measured by one
host's clock, and a ratio of two rates needs no clock in common. Two nodes other than the first are held against each
other by the ends of both intervals, which is more cautious than need be: they share the noise of the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slowstep.judgement.intervals import NOMINAL_P, Interval
from slowstep.judgement.verdict import Outcome, Verdict

NODE = "node"
"""The factor by which a node is held against the first one. It tells of a slow node in whichever direction it goes."""

FIRST = Interval(mean=0.0, lower=0.0, upper=0.0, p=1.0, n=0)
"""The first node against itself."""


@dataclass(frozen=True, kw_only=True)
class SlowNodes:
    """Nodes that are slower than another one, beyond chance."""

    numbers: Sequence[int]
    """Their numbers, the slowest first."""
    against: int
    """The number of the slowest node that is not one of them: without the slow nodes, all would wait for it."""
    gain: Interval
    """How much more that node trains than the slowest in the same time, as a log-ratio."""


def against_first(verdicts: Sequence[Verdict]) -> dict[int, Interval]:
    """Return what each other node trains in the time in which the first one trains 1, as log-ratios, by its number.

    What says nothing of a node is left out: pairs in which something else changed, and a gain that is not told from
    chance after correction.
    """
    found = {}
    for v in verdicts:
        withdrawn = v.outcome is Outcome.INCONCLUSIVE and v.effect is not None and v.effect.lower > 0
        if v.factor == NODE and v.effect and v.tells and v.outcome is not Outcome.NOT_TESTABLE and not withdrawn:
            found[int(v.overrides["nodes.number"])] = v.effect
    return found


def slow_nodes(effects: Mapping[int, Interval], minimum: float) -> SlowNodes | None:
    """Return the nodes that are slower than another by at least `minimum` (0.05 for 5 %), or None.

    `effects` is `against_first` of the verdicts. A node counts as unlike the first one if that survives a correction
    for the number of nodes (Bonferroni).
    """
    every = {0: FIRST, **effects}

    def slower(one: int, other: int) -> bool:
        a, b = every[one], every[other]
        beyond_chance = FIRST not in (a, b) or (a.p if b is FIRST else b.p) * len(effects) <= NOMINAL_P
        return beyond_chance and b.lower > a.upper and b.ratio >= (1 + minimum) * a.ratio

    slow = sorted((n for n in every if any(slower(n, m) for m in every)), key=lambda n: every[n].mean)
    if not slow:
        return None
    a = every[slow[0]]
    against = min((n for n in every if n not in slow and every[n].lower > a.upper), key=lambda n: every[n].mean)
    b = every[against]
    gain = Interval(
        mean=b.mean - a.mean, lower=b.lower - a.upper, upper=b.upper - a.lower, p=min(a.p, b.p), n=max(a.n, b.n)
    )
    return SlowNodes(numbers=slow, against=against, gain=gain)
