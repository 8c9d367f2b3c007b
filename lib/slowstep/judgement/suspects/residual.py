"""What a change leaves of the time that a suspect loses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slowstep.judgement.suspects.suspect import Suspect
from slowstep.judgement.throughput import speed_up

LITTLE = 0.5
"""The most that a change which takes a loss away may leave of it, as a share of the least that the phase loses."""

MOST_LEFT = 0.5
"""Changes leave most of a phase's lost time if this part of it stays; they are not its cause then."""


class Residual(NamedTuple):
    """What changes leave of a loss, as shares, 0 to 1, of the baseline's wall time for the same samples."""

    least: float
    """The least that is certainly left."""
    likely: float
    """The estimate of what is left."""


@dataclass(frozen=True, kw_only=True)
class Residuals:
    """The lost time that a change leaves, by phase: shares of the baseline's wall time for the same samples, 0 to 1."""

    least: Mapping[str, float]
    """The least that the changed run still loses. The time of a phase that is absent is not known to be gone."""
    most: Mapping[str, float] = field(default_factory=dict)
    """The most that the changed run still loses."""
    before: Mapping[str, float] = field(default_factory=dict)
    """What the baseline lost in the same pairs, told in the same way. If it lost nothing there, met no stalls say, the
    absence of a loss after proves nothing."""
    steps: float = 1.0
    """The steps that the changed run takes for what the baseline does in one."""
    seen: Mapping[str, Residual] = field(default_factory=dict)
    """What is lost with all that is adopted, this change among it, where a profile of that tells it."""

    def of(self, suspect: Suspect) -> Residual:
        """Return what is left of what a suspect loses: of what is seen, no more than this change leaves."""
        most = self.most_of(suspect)
        if seen := self.seen.get(suspect.phase):
            return Residual(*(max(0.0, min(share, most)) for share in seen))
        least = self.least[suspect.phase]
        middle = (least + self.most.get(suspect.phase, least)) / 2
        return Residual(
            max(0.0, least - suspect.ordinary_at_most * self.steps), max(0.0, middle - suspect.ordinary * self.steps)
        )

    def most_of(self, suspect: Suspect) -> float:
        """Return the most that is left of what a suspect loses; all of the time if that is not known."""
        most = self.most.get(suspect.phase)
        return 1.0 if most is None else most - suspect.ordinary * self.steps


def unexplained(found: Sequence[Suspect], left: Sequence[Residuals], minimum: float) -> list[tuple[Suspect, Residual]]:
    """Return the suspects that no change takes away, each with what stays of it.

    Something worth a gain of `minimum` certainly stays of them, or most of the loss does, as far as can be told. `left`
    says what each supported change leaves.
    """
    stays = [(s, _best_of(s, [one.of(s) for one in left if eased(s, one)])) for s in found]
    return [(s, one) for s, one in stays if speed_up(one.least) - 1 >= minimum or mostly_stays(s, one)]


def mostly_stays(suspect: Suspect, residual: Residual) -> bool:
    """Return whether changes leave most of a loss, as far as can be told."""
    return residual.likely >= MOST_LEFT * suspect.share.mean


def _best_of(suspect: Suspect, left: Sequence[Residual]) -> Residual:
    """Return what stays of a loss with the change that leaves the least of it; all of the loss without changes."""
    shares = zip(*left, [suspect.share.mean] * 2, strict=True)
    return Residual(*map(min, shares))


def met(suspect: Suspect, left: Residuals) -> bool:
    """Return whether the baseline of the same pairs lost about as much as the suspect says.

    Only then does it mean something that the changed run does not lose it.
    """
    return suspect.comparable and left.before.get(suspect.phase, 1.0) - suspect.ordinary >= LITTLE * suspect.share.lower


def eased(suspect: Suspect, left: Residuals) -> bool:
    """Return whether a changed run is shown to lose less than the suspect does."""
    return met(suspect, left) and left.most_of(suspect) < suspect.share.lower


def gone(suspect: Suspect, left: Residuals) -> bool:
    """Return whether a changed run is shown to lose little of what the suspect loses."""
    return met(suspect, left) and left.most_of(suspect) <= LITTLE * suspect.share.lower
