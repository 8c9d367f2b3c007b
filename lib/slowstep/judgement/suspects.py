"""Time that a healthy run would not spend, phase by phase, whether or not a factor of the catalogue acts on it.

Waiting for data, copying, logging, saving, evaluating and whatever lies between the phases is no training at all. The
forward and the backward pass are held against each other: their FLOPs stand in a known ratio, so a pass that takes much
more than its part does something else besides. A change explains such time if the time is gone in its own blocks;
what no supported change takes away stays "unexplained", and is never blamed on a factor that happens to be listed.
Where a change that acts there is shown to take it away (`gone`), and only its gain over the whole is undecided, the
change is named, and that it is undecided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slowstep.judgement.flops import TokenFlops
from slowstep.judgement.intervals import Interval, interval
from slowstep.judgement.units import speed_up
from slowstep.records import Block

BESIDES = ("data", "host_to_device", "log", "save", "evaluate", "other")
"""The phases that train nothing."""

UNEVEN = 1.5
"""A pass is suspected beyond so many times its part: kernels of both passes reach similar, not equal, rates."""

KNOWN_TO = 1.15
"""How far the part of a pass that its FLOPs let expect may be off, for the same reason; the interval of what it loses
is widened by it."""

LONG = 1.5
"""A step that takes so many times the median is one of the long ones."""

OFTEN = 1 / 3
"""If more of the steps than this are long, the phase is slow throughout, and not now and then."""


LITTLE = 0.5
"""Of the least that a phase loses, a change that takes the loss away leaves no more than this share."""


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A phase with the share of the wall time, 0 to 1, that a healthy run would not spend in it."""

    phase: str
    share: Interval
    why: str

    @property
    def ratio(self) -> float:
        """The speed-up if that time were gone."""
        return speed_up(self.share.mean)

    @property
    def least(self) -> float:
        """The same at the lower end of the share."""
        return speed_up(self.share.lower)


def lost(blocks: Sequence[Block], flops: TokenFlops | None) -> dict[str, Interval]:
    """Share of the wall time a phase that trains nothing; a pass is there only if it takes more than its part."""
    found = {p: interval([b.phases[p] / b.seconds for b in blocks]) for p in BESIDES}
    for phase, other, part in _parts(flops):
        if _excess(blocks, phase, other, UNEVEN * part).lower > 0:
            least, most = (_excess(blocks, phase, other, part * by) for by in (KNOWN_TO, 1 / KNOWN_TO))
            found[phase] = replace(_excess(blocks, phase, other, part), lower=least.lower, upper=most.upper)
    return found


def suspects(blocks: Sequence[Block], flops: TokenFlops | None, minimum: float) -> list[Suspect]:
    """The phases whose lost time would bring `minimum` at least, beyond what the noise explains; largest first."""
    parts = {phase: f"{phase} and {other} stand as {part:.2f} to 1 in FLOPs" for phase, other, part in _parts(flops)}
    found = [
        Suspect(
            phase=phase,
            share=share,
            why=(f"{parts[phase]}, and this time is beyond that" if phase in parts else "it trains nothing")
            + _now_and_then(blocks, share.mean),
        )
        for phase, share in lost(blocks, flops).items()
    ]
    return sorted((s for s in found if s.least - 1 >= minimum), key=lambda s: -s.ratio)


def unexplained(
    found: Sequence[Suspect], left: Sequence[Mapping[str, float]], minimum: float
) -> list[tuple[Suspect, float]]:
    """The suspects that no change takes away, each with the share of the wall time that stays at best.

    `left` holds, for each supported change, the least share of the wall time that a phase still loses under it: as in
    the baseline, what noise explains is no loss.
    """
    stays = [(s, min([s.share.mean, *(changed.get(s.phase, 0.0) for changed in left)])) for s in found]
    return [(s, share) for s, share in stays if speed_up(share) - 1 >= minimum]


def gone(suspect: Suspect, at_most: Mapping[str, float]) -> bool:
    """Whether a changed run, which loses these shares at most, is shown to lose little of what the suspect loses."""
    return at_most.get(suspect.phase, 1.0) <= LITTLE * suspect.share.lower


def _parts(flops: TokenFlops | None) -> list[tuple[str, str, float]]:
    """Each pass with the other, and their ratio in FLOPs; nothing where the workload does not say its sizes."""
    if flops is None or flops.forward <= 0 or flops.backward <= 0:
        return []
    part = flops.forward / flops.backward
    return [("forward", "backward", part), ("backward", "forward", 1 / part)]


def _excess(blocks: Sequence[Block], phase: str, other: str, part: float) -> Interval:
    return interval([(b.phases[phase] - part * b.phases[other]) / b.seconds for b in blocks])


def _now_and_then(blocks: Sequence[Block], share: float) -> str:
    """A word on how often, where a few long steps hold about as much as the phase loses."""
    steps = np.concatenate([b.step_seconds for b in blocks])
    median = float(np.median(steps))
    long = steps > LONG * median
    held = float((steps[long] - median).sum() / steps.sum()) if long.any() else 0.0
    if not 0 < long.mean() <= OFTEN or abs(held - share) > 0.5 * share:
        return ""
    return f"; one step in {1 / long.mean():.0f} is a long one, and those hold about as much"
