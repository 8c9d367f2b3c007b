"""Negative controls: a phase that the factor can't touch must not move.

In one of the reports that led to this kit, torch.compile "made data loading four times slower". It can't do that:
something else had changed, and the comparison was worthless. A control that moves shows this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slowstep.judgement.throughput import sides, works
from slowstep.records import Pair
from slowstep.text.phases import phase_named

CONTROLS = ("data", "host_to_device", "forward", "backward", "optimizer")
MOVED = math.log(1.10)
"""The log-ratio beyond which the whole interval of a moved control lies: 10 %, as caches and clocks move phases by a
few percent. A control must also pass the two limits below to count as moved."""

NOTICEABLE = 0.02
"""The least move that counts, as a share of the step: a ratio of two tiny times means nothing."""

MATERIAL = 0.25
"""The least move that counts, as a share of what the whole step changed. A slow optimizer that walks through all
memory leaves cold caches to the next forward pass, so a change that halves the step may move other phases by a few
percent of it."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A control that moved. `ratio` is its time per unit of work in the treatment, divided by that in the baseline."""

    phase: str
    ratio: float

    def __str__(self) -> str:
        return f"{phase_named(self.phase)} took {self.ratio:.2f} times its time, which this factor can't cause"


def moved_controls(pairs: Sequence[Pair], touched: frozenset[str]) -> list[Moved]:
    """Return the phases that moved although they are not among those that the factor can touch (`touched`)."""
    from slowstep.judgement.intervals import interval  # brings scipy, and an audit needs the limits above at once

    if not pairs:
        return []
    found = []
    before, after = sides(pairs)
    work = list(zip(*works(before, after), strict=True))
    steps = [(b.seconds / own, a.seconds / other) for b, a, (own, other) in zip(before, after, work, strict=True)]
    step, changed = (sum(one) / len(pairs) for one in zip(*steps, strict=True))
    whole = abs(changed / step - 1) if step else 0.0
    for phase in CONTROLS:
        if phase in touched:
            continue
        times = [
            (b.phases[phase] / own, a.phases[phase] / other)
            for b, a, (own, other) in zip(before, after, work, strict=True)
        ]
        if any(a <= 0 or b <= 0 for a, b in times):
            continue
        change = interval([math.log(b / a) for a, b in times])
        shift = abs(sum(b - a for a, b in times) / len(times)) / step
        if abs(change.mean) - change.half > MOVED and shift > max(NOTICEABLE, MATERIAL * whole):
            found.append(Moved(phase=phase, ratio=change.ratio))
    return found
