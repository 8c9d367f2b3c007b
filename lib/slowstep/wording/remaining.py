"""What the adopted configuration still loses, in words."""

from __future__ import annotations

from slowstep.judgement.remaining import Remaining
from slowstep.judgement.suspects import Suspect
from slowstep.text.numbers import percent
from slowstep.text.sentences import capitalised
from slowstep.wording.words import phase_named, share_span

MOST_SHOWN = 3
"""The most phases that are named."""


def remains(remaining: Remaining | None) -> list[str]:
    """Return what the adopted configuration still loses, a phase each; nothing where it is not known."""
    return [still_lost(one) for one in remaining.suspects[:MOST_SHOWN]] if remaining else []


def still_lost(suspect: Suspect) -> str:
    """Return what a phase of the adopted configuration loses, in sentences."""
    takes = f"{capitalised(phase_named(suspect.phase))} takes {share_span(suspect.share)} of the time that is left"
    consists = f" It is {'; '.join(suspect.consists_of)}." if suspect.consists_of else ""
    without = f"Without that time the run would be {percent(suspect.ratio)} faster still."
    return f"{takes}; {suspect.why}.{consists} {without}"
