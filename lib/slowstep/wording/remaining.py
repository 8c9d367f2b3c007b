"""What the adopted configuration still loses, in words."""

from __future__ import annotations

from slowstep.judgement.remaining import Remaining
from slowstep.judgement.suspects import Suspect
from slowstep.wording.lost import consists, gain_without, takes

MOST_SHOWN = 3
"""The most phases that are named."""


def remains(remaining: Remaining | None) -> list[str]:
    """Return what the adopted configuration still loses, a phase each; nothing where it is not known."""
    return [still_lost(one) for one in remaining.suspects[:MOST_SHOWN]] if remaining else []


def still_lost(suspect: Suspect) -> str:
    """Return what a phase of the adopted configuration loses, in sentences."""
    lost = f"{takes(suspect, 'the time that is left')}; {suspect.why}. {consists(suspect)}".rstrip()
    return f"{lost} Without that time the run would be {gain_without(suspect)} faster still."
