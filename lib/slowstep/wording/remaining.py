"""What the adopted configuration still loses, in words."""

from __future__ import annotations

from slowstep.judgement.remaining import Remaining
from slowstep.judgement.suspects import Suspect
from slowstep.text.numbers import unsigned
from slowstep.wording.lost import consists, gain_without, takes

MOST_SHOWN = 3
"""The most phases that are named."""


def remains(remaining: Remaining | None) -> list[str]:
    """Return what the adopted configuration still loses, a phase each, and last what else it may lose.

    Nothing where it is not known to lose anything.
    """
    if remaining is None or not remaining.suspects:
        return []
    lost = [still_lost(one) for one in remaining.suspects[:MOST_SHOWN]]
    return [*lost, *filter(None, [not_certain(remaining)])]


def looked_at_again(remaining: Remaining | None) -> str:
    """Say that the adopted configuration loses nothing, or that this is not certain, in sentences.

    Empty where it certainly loses something, which `remains` tells, and where nobody looked.
    """
    if remaining is None:
        return ""
    if remaining.loses_nothing:
        missed = f"; {remaining.missed}" if remaining.missed else ""
        return f"Looked at once more with that, no phase of the run loses time that is worth a change{missed}."
    return "" if remaining.suspects else not_certain(remaining)


def not_certain(remaining: Remaining) -> str:
    """Return the phases in which it may lose time that matters, in sentences; empty where there are none."""
    if not remaining.perhaps:
        return ""
    what = "what else is still lost" if remaining.suspects else "what is still lost"
    phases = (f" {takes(one, 'the time that is left')}." for one in remaining.perhaps[:MOST_SHOWN])
    return f"From so few steps it is not known {what}.{''.join(phases)}"


def still_lost(suspect: Suspect) -> str:
    """Return what a phase of the adopted configuration loses, in sentences."""
    lost = f"{takes(suspect, 'the time that is left')}; {suspect.why}. {consists(suspect)}".rstrip()
    return f"{lost} Without that time the run would be {unsigned(gain_without(suspect))} faster still."
