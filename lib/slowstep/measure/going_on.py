"""A comparison that goes on: its minutes ended before it was decided, and a later run has more minutes.

The stop rule knows only how many pairs there are, and in which launches. So a comparison that was interrupted after
four pairs has its next look at five, as if nothing had happened: no look happens twice, and none is left out. Measured
anew it would have a second series of looks, each of which noise can pass. The new pairs are measured in new launches,
as any pairs after a look may be. The order of the arms is drawn on from where it was.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from slowstep.records import ComparisonRecord, Pair, Status, TrialRecord


def pairs_before(earlier: ComparisonRecord | None) -> list[Pair]:
    """Return the pairs that a comparison goes on from; their launches have negative numbers, and new ones begin at 0.

    So the launches of this run are as many as the budget allows, however many there were before.
    """
    if earlier is None:
        return []
    beyond = 1 + max((pair.launch for pair in earlier.pairs), default=0)
    return [replace(pair, launch=pair.launch - beyond) for pair in earlier.pairs]


def joined(earlier: ComparisonRecord | None, later: ComparisonRecord) -> ComparisonRecord:
    """Return the record of a comparison that went on: `later`, with the start-ups, times and steps of `earlier`.

    The pairs of `earlier`, and its blocks that were measured again, are in `later` already.
    """
    if earlier is None:
        return later
    return replace(
        later,
        baseline=_joined(earlier.baseline, later.baseline),
        treatment=_joined(earlier.treatment, later.treatment),
        by_turns=earlier.by_turns or later.by_turns,
        seconds=earlier.seconds + later.seconds,
    )


def _joined(earlier: TrialRecord, later: TrialRecord) -> TrialRecord:
    """Return the record of an arm's last launch, with the start-up of its first, which found no caches."""
    told = earlier if later.status is Status.NOT_TESTABLE else later  # there was no time to launch it once more
    return replace(
        told,
        startup=earlier.startup,
        first_wait=earlier.first_wait,
        warmup_steps=earlier.warmup_steps,
        wall=dict(Counter(earlier.wall) + Counter(later.wall)),
        steps=[*earlier.steps, *later.steps],
    )
