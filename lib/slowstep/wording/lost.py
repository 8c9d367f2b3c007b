"""The time that a phase loses, in words."""

from __future__ import annotations

from slowstep.judgement.suspects import TRAINS_NOTHING, Suspect
from slowstep.text.numbers import spanned
from slowstep.text.phases import phase_named
from slowstep.text.sentences import capitalised
from slowstep.wording.words import share_span

LOST_IN = {
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "optimizer": "in the optimizer's step",
    "other": "between the phases",
}
"""The phases of which a part is lost, and the other part trains."""


def takes(suspect: Suspect, of: str = "the time") -> str:
    """Return the share of the time that a phase loses, as a sentence without its end."""
    if suspect.phase in TRAINS_NOTHING:
        return f"{capitalised(phase_named(suspect.phase))} takes {share_span(suspect.share)} of {of}"
    return f"{share_span(suspect.share)} of {of} is lost {LOST_IN[suspect.phase]}"


def lost_in(phase: str) -> str:
    """Return the phase as the place of lost time in a sentence."""
    return LOST_IN.get(phase) or f"in {phase_named(phase)}"


def consists(suspect: Suspect) -> str:
    """Return what that time consists of, as a sentence; an empty text if that is not known."""
    return f"It consists of {'; '.join(suspect.consists_of)}." if suspect.consists_of else ""


def gain_without(suspect: Suspect) -> str:
    """Return the speed-up if that time were gone, with its interval."""
    return spanned(suspect.ratio, suspect.least, suspect.most)
