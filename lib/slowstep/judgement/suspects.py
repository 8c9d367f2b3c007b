"""Time that a healthy run would not spend, phase by phase, whether or not a factor of the catalogue acts on it.

Waiting for data, copying, logging, saving, evaluating and whatever lies between the phases is no training at all. The
forward and the backward pass are held against each other: their FLOPs stand in a known ratio, so a pass that takes much
more than its part does something else besides. What no supported change explains stays "unexplained", and is
never blamed on a factor that happens to be listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slowstep.factors import CATALOGUE, Meaning
from slowstep.judgement.facts import BaselineFacts
from slowstep.judgement.intervals import Interval, interval
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.records import Block

BESIDES = ("data", "host_to_device", "log", "save", "evaluate", "other")
"""The phases that train nothing."""

UNEVEN = 1.5
"""A pass is suspected beyond so many times its part: kernels of both passes reach similar, not equal, rates."""

LONG = 1.5
"""A step that takes so many times the median is one of the long ones."""


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A phase with the share of the wall time, 0 to 1, that a healthy run would not spend in it."""

    phase: str
    share: Interval
    why: str

    @property
    def ratio(self) -> float:
        """The speed-up if that time were gone."""
        return 1.0 / (1.0 - min(self.share.mean, 0.99))

    @property
    def least(self) -> float:
        """The same at the lower end of the share."""
        return 1.0 / (1.0 - min(max(self.share.lower, 0.0), 0.99))


def suspects(facts: BaselineFacts, minimum: float) -> list[Suspect]:
    """The phases whose lost time would bring `minimum` at least, beyond what the noise explains; largest first."""
    found = [Suspect(phase=p, share=facts.shares[p], why=_besides(facts.blocks)) for p in BESIDES]
    found += _uneven(facts)
    return sorted((s for s in found if s.least - 1 >= minimum), key=lambda s: -s.ratio)


def unexplained(found: Sequence[Suspect], verdicts: Sequence[Verdict], minimum: float) -> list[tuple[Suspect, float]]:
    """The suspects that no supported change accounts for, each with the speed-up that is left to be had there."""
    left = []
    for suspect in found:
        gains = [1.0] + [
            v.effect.ratio
            for v in verdicts
            if v.outcome is Outcome.SUPPORTED
            and v.effect is not None
            and v.meaning is not Meaning.DIAGNOSTIC
            and suspect.phase in CATALOGUE[v.factor].touches
        ]
        if suspect.least / max(gains) - 1 >= minimum:
            left.append((suspect, suspect.ratio / max(gains)))
    return left


def _besides(blocks: Sequence[Block]) -> str:
    return "a step that only trains would not spend it" + _now_and_then(blocks)


def _uneven(facts: BaselineFacts) -> list[Suspect]:
    if facts.flops is None or not facts.flops.forward or not facts.flops.backward:
        return []
    part = facts.flops.forward / facts.flops.backward
    found = []
    for phase, other, ratio in (("forward", "backward", part), ("backward", "forward", 1 / part)):
        beyond = interval([(b.phases[phase] - UNEVEN * ratio * b.phases[other]) / b.seconds for b in facts.blocks])
        if beyond.lower > 0:
            excess = interval([(b.phases[phase] - ratio * b.phases[other]) / b.seconds for b in facts.blocks])
            why = (
                f"{phase} and {other} stand as {ratio:.2f} to 1 in FLOPs, and this time is beyond that"
                f"{_now_and_then(facts.blocks)}"
            )
            found.append(Suspect(phase=phase, share=excess, why=why))
    return found


def _now_and_then(blocks: Sequence[Block]) -> str:
    """A word on how often, where a few long steps hold most of what a step takes beyond its median."""
    steps = np.concatenate([b.step_seconds for b in blocks])
    long = steps > LONG * np.median(steps)
    if not 0 < long.mean() <= 0.34:
        return ""
    lost = float((steps[long] - np.median(steps)).sum() / steps.sum())
    return f"; one step in {1 / long.mean():.0f} is a long one, and together they cost {lost:.1%}"
