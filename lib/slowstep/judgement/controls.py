"""Negative controls: a phase that the factor can't touch must not move.

In one of the reports that led to this kit, torch.compile "made data loading four times slower". It can't do that:
something else had changed, and the comparison was worthless. A control that moves shows this.

A wait is a control of another kind. Loader workers, or the host while the device computes, prepare what it waits for
while the run trains. Where training takes less time, less of that preparation is hidden, and the wait grows. So a wait
may grow by what the touched phases no longer take, and shrink by what they take in addition. It counts as moved only if
it and the touched phases together have certainly moved the same way, by as much as any other control must. An example:
passes take 50 % of a step in place of 70 %. A wait that grows from 10 to 25 % is explained by that. One that grows from
10 to 40 % is not.

*What this can't find:* a disturbance of a wait that is no larger than what the touched phases lost. It makes an
effect look smaller, and never larger. Where nothing is made ready beside training, a wait is a control as any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from slowstep.judgement.throughput import sides, works
from slowstep.records import Block, Pair
from slowstep.text.numbers import percentage
from slowstep.text.phases import phase_named

CONTROLS = ("data", "host_to_device", "forward", "backward", "optimizer")
PREFETCHED = ("data", "host_to_device")
"""The controls that are waits for what may be made ready beside training."""

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


@dataclass(frozen=True, kw_only=True)
class Uncovered:
    """A wait that grew because the phases beside it take less time. `growth` is a share of the baseline's step."""

    phase: str
    growth: float

    def __str__(self) -> str:
        grown = f"{phase_named(self.phase)} grew by {percentage(self.growth)} of the baseline's step"
        return f"{grown}, since what runs beside it takes less time now: it hides part of the gain, and limits the run"


def moved_controls(pairs: Sequence[Pair], touched: frozenset[str], overlaps: bool = True) -> list[Moved]:
    """Return the phases that moved although they are not among those that the factor can touch (`touched`).

    `overlaps` says whether anything may be made ready while the run trains, which a wait then depends on.
    """
    from slowstep.judgement.intervals import interval  # brings scipy, and an audit needs the limits above at once

    if not pairs:
        return []
    found = []
    seconds = _Seconds(pairs)
    step, changed = seconds.step
    whole = abs(changed / step - 1) if step else 0.0
    for phase in CONTROLS:
        if phase in touched:
            continue
        times = seconds.of(phase)
        if any(a <= 0 or b <= 0 for a, b in times):
            continue
        change = interval([math.log(b / a) for a, b in times])
        shift = abs(fmean(b - a for a, b in times)) / step
        if phase in PREFETCHED and overlaps:
            way = math.copysign(1.0, change.mean)
            together = interval([way * (b - a) for a, b in seconds.of(phase, *touched)])
            shift = min(shift, together.mean / step) if together.lower > 0 else 0.0
        if abs(change.mean) - change.half > MOVED and shift > max(NOTICEABLE, MATERIAL * whole):
            found.append(Moved(phase=phase, ratio=change.ratio))
    return found


def uncovered_waits(pairs: Sequence[Pair], touches: frozenset[str]) -> list[Uncovered]:
    """Return the waits that certainly grew while the phases that the factor acts on (`touches`) certainly lost time.

    A wait that the factor itself acts on is none.
    """
    from slowstep.judgement.intervals import interval

    if not pairs:
        return []
    seconds = _Seconds(pairs)
    step, _ = seconds.step
    growths = {p: interval([b - a for a, b in seconds.of(p)]) for p in PREFETCHED if p not in touches}
    beside = touches - {*PREFETCHED}
    if not beside or interval([a - b for a, b in seconds.of(*beside)]).lower <= 0:
        return []
    return [
        Uncovered(phase=phase, growth=growth.mean / step)
        for phase, growth in growths.items()
        if growth.lower > 0 and growth.mean > NOTICEABLE * step
    ]


class _Seconds:
    """The seconds that both blocks of each pair take for a unit of work, those of the baseline first."""

    def __init__(self, pairs: Sequence[Pair]):
        before, after = sides(pairs)
        self._blocks = list(zip(before, after, *works(before, after), strict=True))

    @property
    def step(self) -> tuple[float, float]:
        """Return the means of all the time."""
        both = self._of(lambda block: block.seconds)
        return fmean(a for a, _ in both), fmean(b for _, b in both)

    def of(self, *phases: str) -> list[tuple[float, float]]:
        """Return the seconds of some phases together, by pair."""
        return self._of(lambda block: sum(block.phases.get(phase, 0.0) for phase in phases))

    def _of(self, seconds: Callable[[Block], float]) -> list[tuple[float, float]]:
        return [(seconds(b) / own, seconds(a) / other) for b, a, own, other in self._blocks]
