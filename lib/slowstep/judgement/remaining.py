"""What the configuration that is adopted still loses: its own suspects, by a profile of its own.

A change may take a part of a loss away and leave another part of it. How much of what it leaves is lost, and how much
is the ordinary time of the phase, the baseline's profile can't tell: one of the changed run does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from slowstep.judgement.suspects import Residual, Residuals, Suspect
from slowstep.judgement.verdict import Verdict
from slowstep.records import PHASES


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """The suspects of a changed run."""

    overrides: dict[str, Any]
    """The settings that it changes."""
    ratio: float
    """Its throughput over that of the run as it is: shares of its wall time, over this, are shares of the run's."""
    looked_at: list[str] = field(default_factory=list)
    """The phases whose losses would have been seen: without the device's peak, a pass is not among them."""
    suspects: list[Suspect] = field(default_factory=list)
    """The phases in which it loses time, as shares of its own wall time; largest first."""
    perhaps: list[Suspect] = field(default_factory=list)
    """The phases in which it may lose as much, and which its few steps do not decide; largest first."""
    missed: str = ""
    """The stalls that its steps could all have missed, as a clause; empty if they are too rare to matter."""

    @property
    def loses_nothing(self) -> bool:
        """True if all phases were looked at, and none may lose time that matters."""
        return not self.suspects and not self.perhaps and set(PHASES) <= set(self.looked_at)

    def holds(self, v: Verdict) -> bool:
        """Return whether a change is a part of it."""
        return v.overrides.items() <= self.overrides.items()

    def left_by(self, v: Verdict) -> Residuals:
        """Return what a change leaves. Of one that is a part of it, the changed run shows how much that is.

        A loss that another part has uncovered is none that the change leaves. Nothing is seen of a phase that the
        changed run's steps do not decide.
        """
        known = set(self.looked_at) - {s.phase for s in self.perhaps}
        lost = {s.phase: Residual(s.share.lower / self.ratio, s.share.mean / self.ratio) for s in self.suspects}
        seen = dict.fromkeys(known, Residual(0.0, 0.0)) | lost
        return replace(v.leaves, seen=seen) if self.holds(v) else v.leaves
