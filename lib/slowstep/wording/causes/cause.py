"""One loss of time, with its size and its texts."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.judgement.intervals import Interval
from slowstep.judgement.throughput import speed_up

MOST_SHOWN = 3
"""The most changes that are named beside a suspect."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One loss of time, named by the factor of a supported change, or by the phase that loses it."""

    factor: str | None
    """The factor that names it; None if the phase does."""
    phase: str | None
    """The phase that names it, or whose loss the factor's change takes away in part or without proof."""
    ratio: float
    """The speed-up if the whole loss were gone: causes are ranked by it."""
    text: str
    effect: Interval | None = None
    """The effect of the factor's change, as a log-ratio."""
    share: Interval | None = None
    """The share of the wall time, 0 to 1, that the phase loses."""
    headline: str = ""
    """A phase's cause in one short sentence: its share, the place, and about what it would bring."""
    still_open: str = ""
    """What stays open of it when the supported changes are made; empty if nothing does."""
    left: tuple[float, str] | None = None
    """The speed-up without what they leave of it, and its headline; None if they take nothing away."""

    @property
    def size(self) -> tuple[float, float, float]:
        """Return the speed-up that it states, with its ends: of its factor's change, or of the phase's lost time."""
        if self.effect:
            return self.effect.ratio, self.effect.low, self.effect.high
        return self.ratio, min(self.ratio, speed_up(self.share.lower)), speed_up(self.share.upper)
