"""The share of the time that each phase loses.

A phase that trains nothing loses all its time, and a pass what it takes beyond its part by FLOPs.
"""

from __future__ import annotations

from dataclasses import replace

from slowstep.judgement.flops import TokenFlops
from slowstep.judgement.intervals import Interval
from slowstep.judgement.shares import difference
from slowstep.judgement.suspects.suspect import TRAINS_NOTHING
from slowstep.judgement.timeline import Timeline

UNEVEN = 1.5
"""The multiple of its part by FLOPs beyond which a pass is suspected. Both passes reach similar, not equal, rates."""

KNOWN_TO = 1.15
"""The factor by which the part of a pass by its FLOPs may be off, for the same reason. The interval of what the pass
loses is widened by it."""


def lost(steps: Timeline, flops: TokenFlops | None) -> dict[str, Interval]:
    """Return the share of the wall time, 0 to 1, that each phase loses.

    A phase that trains nothing loses all its time. A pass loses what it takes beyond its part by FLOPs: 0 if it takes
    no more. A pass is absent if the FLOPs are not known.
    """
    found = {p: steps.share(p) for p in (*TRAINS_NOTHING, "other")}
    for phase, other, part in _parts(flops):
        if _excess(steps, phase, other, UNEVEN * part).lower > 0:
            least, most = (_excess(steps, phase, other, part * by) for by in (KNOWN_TO, 1 / KNOWN_TO))
            found[phase] = replace(_excess(steps, phase, other, part), lower=least.lower, upper=most.upper)
        else:
            found[phase] = Interval(mean=0.0, lower=0.0, upper=0.0, p=1.0, n=len(steps.position))
    return found


def _parts(flops: TokenFlops | None) -> list[tuple[str, str, float]]:
    """Return each pass with the other, and their ratio in FLOPs; nothing where the model's sizes are not known."""
    if flops is None or flops.forward <= 0 or flops.backward <= 0:
        return []
    part = flops.forward / flops.backward
    return [("forward", "backward", part), ("backward", "forward", 1 / part)]


def _excess(steps: Timeline, phase: str, other: str, part: float) -> Interval:
    return difference(steps.phases[phase], part * steps.phases[other], steps.whole)
