"""What the configuration that is adopted still loses: its own suspects, by a profile of its own.

A change may take a part of a loss away and leave another part of it. How much of what it leaves is lost, and how much
is the ordinary time of the phase, the baseline's profile can't tell: one of the changed run does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from slowstep.judgement.suspects import Left, Suspect
from slowstep.judgement.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """The suspects of a changed run."""

    overrides: dict[str, Any]
    """The settings that it changes."""
    ratio: float
    """Its throughput over that of the run as it is."""
    suspects: list[Suspect] = field(default_factory=list)
    """The phases in which it loses time, as shares of its own wall time; largest first."""

    def left_by(self, v: Verdict) -> Left:
        """Return what a change leaves: at least what the changed run is seen to lose, if the change is a part of it."""
        if not v.overrides.items() <= self.overrides.items():
            return v.leaves
        lost = {s.phase: s.share.lower / self.ratio for s in self.suspects if s.rank is None}
        return replace(v.leaves, lost=lost)
