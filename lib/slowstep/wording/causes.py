"""What the investigation as a whole points at: supported changes and unexplained time in one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slowstep.factors import CATALOGUE, Meaning
from slowstep.judgement.intervals import Interval
from slowstep.judgement.suspects import Suspect, gone, unexplained
from slowstep.judgement.units import speed_up
from slowstep.judgement.verdict import Outcome, Verdict, best_levels, percent
from slowstep.wording.words import PHASE_NAMES, effect, share, share_span

MOST_SHOWN = 3
"""Changes that are named beside a suspect at most."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A factor whose change was supported, a phase with time that nothing explains, or both: the time is gone under a
    change of the factor, which is undecided over the whole."""

    factor: str | None
    phase: str | None
    ratio: float
    """The speed-up: measured for a factor, what its removal would bring for a phase."""
    text: str
    effect: Interval | None = None
    """Of a factor's change."""
    share: Interval | None = None
    """Of the wall time that a phase loses."""


def causes(verdicts: Sequence[Verdict], suspects: Sequence[Suspect], minimum: float) -> list[Cause]:
    """Largest first. A ceiling is a limit and no cause, so it comes last. Changes that were compared under other
    conditions than this run's, which lacks what they need, are left out."""
    supported = best_levels([v for v in verdicts if not v.conditional])
    real = [v for v in supported if v.meaning is not Meaning.DIAGNOSTIC]
    open_ones = unexplained(suspects, [v.leaves for v in real], minimum)
    found = [_factor(v) for v in real]
    for suspect, stays in open_ones:
        likely = _likely(suspect, verdicts)
        found.append(_undecided(suspect, likely) if likely else _phase(suspect, stays, verdicts, bool(real)))
    ceilings = [_factor(v) for v in supported if v.meaning is Meaning.DIAGNOSTIC]
    return sorted(found, key=lambda c: -c.ratio) + ceilings


def _factor(v: Verdict) -> Cause:
    text = f"{v.name} ({effect(v.effect)}): {v.hypothesis}"
    return Cause(factor=v.factor, phase=None, ratio=v.effect.ratio, text=text, effect=v.effect)


def _likely(suspect: Suspect, verdicts: Sequence[Verdict]) -> Verdict | None:
    """The undecided change that acts on the phase, and under which its time is gone; the one of the largest gain."""
    fits = [
        v
        for v in verdicts
        if v.outcome is Outcome.INCONCLUSIVE
        and v.alone
        and not v.conditional
        and v.meaning is not Meaning.DIAGNOSTIC
        and suspect.phase in CATALOGUE[v.factor].touches
        and gone(suspect, v.leaves)
        and v.effect.ratio > 1
        and v.effect.high >= suspect.least
    ]
    return max(fits, key=lambda v: v.gain, default=None)


def _undecided(suspect: Suspect, v: Verdict) -> Cause:
    text = (
        f"time in phase {PHASE_NAMES[suspect.phase]}: {share_span(suspect.share)} of the wall time; {suspect.why}. "
        f"Under {v.name} it is gone, and what that brings over the whole, {effect(v.effect)}, could not be told from "
        "chance here: more pairs, or a quieter machine, would decide it."
    )
    return Cause(factor=v.factor, phase=suspect.phase, ratio=suspect.ratio, text=text, share=suspect.share)


def _phase(suspect: Suspect, stays: float, verdicts: Sequence[Verdict], changed: bool) -> Cause:
    taken = f"{share_span(suspect.share)} of the wall time"
    if changed and stays < suspect.share.mean:
        taken += f", of which the changes above leave a share of {share(stays)} at least"
    ratio = speed_up(stays)
    consists = f" It is {'; '.join(suspect.consists_of)}." if suspect.consists_of else ""
    text = (
        f"unexplained time in phase {PHASE_NAMES[suspect.phase]}: {taken}; {suspect.why}.{consists} Without it the run "
        f"would be up to {percent(ratio)} faster. {_where_it_goes(suspect, verdicts)}"
    )
    return Cause(factor=None, phase=suspect.phase, ratio=ratio, text=text, share=suspect.share)


def _where_it_goes(suspect: Suspect, verdicts: Sequence[Verdict]) -> str:
    """Under which changes the time is gone, whatever came of them; else that no change takes it away."""
    relieving = [v for v in verdicts if suspect.phase in CATALOGUE[v.factor].touches and gone(suspect, v.leaves)]
    shown = [f"{v.title_in_full} ({_outcome(v)})" for v in sorted(relieving, key=lambda v: -v.gain)[:MOST_SHOWN]]
    if shown:
        return f"It is gone under {', '.join(shown)}; none of these was shown to bring it as a change to train with."
    if suspect.consists_of:
        return "No change tested here removes it; it is to be mended there."
    return "No change tested here removes it: look at what your code does there."


def _outcome(v: Verdict) -> str:
    kind = "a limit and no change to train with" if v.meaning is Meaning.DIAGNOSTIC else str(v.outcome)
    return f"{effect(v.effect)}, {kind}"
