"""The causes that the whole investigation points at: supported changes and unexplained time in one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slowstep.factors import Meaning, limited_by, touched_by
from slowstep.judgement.intervals import Interval
from slowstep.judgement.suspects import Suspect, gone, unexplained
from slowstep.judgement.throughput import speed_up
from slowstep.judgement.verdict import Outcome, Verdict, best_levels, percent
from slowstep.wording.words import PHASE_NAMES, effect, share, share_span, time_taken

MOST_SHOWN = 3
"""The most changes that are named beside a suspect."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A factor whose change was supported, or a phase with time that nothing explains, or both.

    It is both if the phase's time is gone under a change of the factor, but the gain over the whole step is undecided.
    """

    factor: str | None
    phase: str | None
    ratio: float
    """The speed-up: the measured one of a factor, or what a phase's lost time would bring if it were gone."""
    text: str
    effect: Interval | None = None
    """The effect of a factor's change, as a log-ratio."""
    share: Interval | None = None
    """The share of the wall time, 0 to 1, that a phase loses."""
    headline: str = ""
    """A phase's cause in one short sentence: its share, the place, and about what it would bring."""


def causes(verdicts: Sequence[Verdict], suspects: Sequence[Suspect], minimum: float) -> list[Cause]:
    """Return the causes, largest first.

    The cached-batch ceiling is a limit and not a cause, so it comes last. Changes are left out that were compared
    beside settings which this run lacks.
    """
    supported = best_levels([v for v in verdicts if not v.conditional])
    real = [v for v in supported if v.meaning is not Meaning.DIAGNOSTIC]
    open_ones = unexplained(suspects, [v.leaves for v in real], minimum)
    found = [_factor_cause(v) for v in real]
    for suspect, stays in open_ones:
        likely = _likely_change(suspect, verdicts)
        found.append(
            _undecided_cause(suspect, likely) if likely else _phase_cause(suspect, stays, verdicts, bool(real))
        )
    ceilings = [_factor_cause(v) for v in supported if v.meaning is Meaning.DIAGNOSTIC]
    return sorted(found, key=lambda c: -c.ratio) + ceilings


def _factor_cause(v: Verdict) -> Cause:
    text = f"{v.cause} costs {time_taken(v.effect)} of the time, shown by {v.shown} ({effect(v.effect)})."
    if v.meaning is Meaning.DIAGNOSTIC:
        text = (
            f"{v.cause} costs {time_taken(v.effect)} of the time: more than {effect(v.effect)} can't be had from "
            f"{limited_by(v.factor)}, shown by {v.shown}, which is a limit and nothing to train with."
        )
    return Cause(factor=v.factor, phase=None, ratio=v.effect.ratio, text=text, effect=v.effect)


def _likely_change(suspect: Suspect, verdicts: Sequence[Verdict]) -> Verdict | None:
    """Return the undecided change that acts on the phase and under which its time is gone; None if there is none.

    Of several, this is the one with the largest gain.
    """
    fits = [
        v
        for v in verdicts
        if v.outcome is Outcome.INCONCLUSIVE
        and v.alone
        and not v.conditional
        and v.meaning is not Meaning.DIAGNOSTIC
        and suspect.phase in touched_by(v.factor)
        and gone(suspect, v.leaves)
        and v.effect.ratio > 1
        and v.effect.high >= suspect.least
    ]
    return max(fits, key=lambda v: v.gain, default=None)


def _undecided_cause(suspect: Suspect, v: Verdict) -> Cause:
    text = (
        f"{_phase(suspect)} takes {share_span(suspect.share)} of the time; {suspect.why}. "
        f"Under {v.shown} it is gone, and what that brings over the whole, {effect(v.effect)}, could not be told from "
        "chance here: more pairs, or a quieter machine, would decide it."
    )
    return Cause(factor=v.factor, phase=suspect.phase, ratio=suspect.ratio, text=text, share=suspect.share)


def _phase_cause(suspect: Suspect, stays: float, verdicts: Sequence[Verdict], changed: bool) -> Cause:
    if changed and stays < suspect.share.mean:
        explained = f"supported changes take a part of it away, and {share(stays)} of today's time stays at least"
    else:
        relieved = any(v.meaning is not Meaning.DIAGNOSTIC for v in _relieving(suspect, verdicts))
        explained = "no change that was tried " + ("was shown to save that time" if relieved else "explains it")
    ratio = speed_up(stays)
    consists = f" It is {'; '.join(suspect.consists_of)}." if suspect.consists_of else ""
    text = (
        f"{_phase(suspect)} takes {share_span(suspect.share)} of the time; {suspect.why}, and {explained}.{consists} "
        f"Without what stays the run would be {percent(ratio)} faster than today. {_where_it_goes(suspect, verdicts)}"
    )
    where = f" ({suspect.consists_of[0]})" if suspect.consists_of else ""
    without = "what stays of it" if changed and stays < suspect.share.mean else "it"
    headline = f"{_phase(suspect)} takes {share_span(suspect.share)} of the time{where}; without {without} the run "
    headline += f"would be about {percent(ratio)} faster."
    return Cause(factor=None, phase=suspect.phase, ratio=ratio, text=text, share=suspect.share, headline=headline)


def _phase(suspect: Suspect) -> str:
    """Return the phase as the subject of a sentence."""
    name = PHASE_NAMES[suspect.phase]
    return "Time between the phases" if name == "other" else f"{name[0].upper()}{name[1:]}"


def _where_it_goes(suspect: Suspect, verdicts: Sequence[Verdict]) -> str:
    """Return a sentence that names the changes under which the time is gone, or says that no change takes it away."""
    relieving = _relieving(suspect, verdicts)
    shown = [f"{v.title_in_full} ({_outcome(v)})" for v in sorted(relieving, key=lambda v: -v.gain)[:MOST_SHOWN]]
    if shown and all(v.meaning is Meaning.DIAGNOSTIC for v in relieving):
        return f"It is gone under {', '.join(shown)}."
    if shown:
        return f"It is gone under {', '.join(shown)}, and these pairs do not show the run to be faster by that."
    if suspect.consists_of:
        return "No change tested here removes it; fix it in that code."
    return "No change tested here removes it: look at what your code does there."


def _relieving(suspect: Suspect, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the changes that act on the phase and under which its time is gone."""
    return [v for v in verdicts if suspect.phase in touched_by(v.factor) and gone(suspect, v.leaves)]


def _outcome(v: Verdict) -> str:
    kind = "a limit and no change to train with" if v.meaning is Meaning.DIAGNOSTIC else str(v.outcome)
    return f"{effect(v.effect)}, {kind}"
