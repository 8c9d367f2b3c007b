"""The causes that the whole investigation points at: supported changes and unexplained time in one ranking."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slowstep.factors import ALL_PHASES, Meaning, limited_by, touched_by
from slowstep.judgement.intervals import Interval
from slowstep.judgement.suspects import WAITING, Suspect, gone, met, unexplained
from slowstep.judgement.throughput import speed_up
from slowstep.judgement.verdict import Outcome, Verdict, best_levels, percent
from slowstep.wording.words import PHASE_NAMES, effect, share, share_span, time_taken

MOST_SHOWN = 3
"""The most changes that are named beside a suspect."""


MOSTLY = 0.5
"""The part of a loss, in log-ratios, from which on a change that takes it away names it. Below, the loss names itself:
its cure is another one."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One loss of time: a phase, supported changes that act on it, the limit of such changes, or several of these."""

    factor: str | None
    """The factor of the change that brings most of it, or of the limit if no change does."""
    phase: str | None
    ratio: float
    """The speed-up of what names the cause: what a phase's lost time would bring if it were gone, or what was measured
    of a factor."""
    text: str
    effect: Interval | None = None
    """The effect of the factor's change, as a log-ratio."""
    share: Interval | None = None
    """The share of the wall time, 0 to 1, that a phase loses."""
    limit: str | None = None
    """The factor of the diagnostic change that shows the limit, where it stands beside a change."""
    most: Interval | None = None
    """The effect of that diagnostic change, as a log-ratio."""
    headline: str = ""
    """A phase's cause in one short sentence: its share, the place, and about what it would bring."""

    def size(self, of: str | None) -> tuple[float, float, float]:
        """Return the speed-up that the cause states with its ends: of the change of a factor, or of the whole loss."""
        if self.share and (of != self.factor or not self.effect):
            lost = speed_up(self.share.mean) if self.factor else self.ratio
            return lost, speed_up(self.share.lower), speed_up(self.share.upper)
        effect = self.most if self.most and of != self.factor else self.effect
        return effect.ratio, effect.low, effect.high


def causes(verdicts: Sequence[Verdict], suspects: Sequence[Suspect], minimum: float) -> list[Cause]:
    """Return the causes, largest first.

    One loss of time is one cause: a phase stands with the supported changes that take a part of it away, and with the
    limit that a diagnostic change shows. Limits that nothing else belongs to come last. Changes are left out that were
    compared beside settings which this run lacks.
    """
    supported = best_levels([v for v in verdicts if not v.conditional])
    changes = [v for v in supported if v.meaning is not Meaning.DIAGNOSTIC]
    limits = [v for v in supported if v.meaning is Meaning.DIAGNOSTIC]
    open_ones = unexplained(suspects, [v.leaves for v in changes], minimum)
    explained = [s for s in suspects if s not in [one for one, _ in open_ones]]
    found = []
    for suspect, stays in open_ones:
        relieving = [v for v in changes if _relieves(v, suspect)]
        parts = [v for v in relieving if v.effect.ratio <= suspect.ratio]
        likely = None if relieving else _likely_change(suspect, verdicts)
        limit = next((v for v in limits if suspect.phase in touched_by(v.factor)), None)
        if likely:
            found.append(_undecided_cause(suspect, likely))
            continue
        if parts:
            found.append(_cause_in_part(suspect, stays, parts, verdicts, limit))
        else:
            found.append(_phase_cause(suspect, stays, verdicts, bool(relieving), limit))
        changes = [v for v in changes if v not in parts]
        limits = [v for v in limits if v is not limit]
    for limit in limits:
        within = [v for v in changes if _is_within(v, limit)]
        found += [_cause_within(limit, within, explained)] if within else []
        changes = [v for v in changes if v not in within]
        limits = [v for v in limits if v is not limit or not within]
    found += [_factor_cause(v, explained) for v in changes]
    return sorted(found, key=lambda c: -c.ratio) + [_limit_cause(v) for v in limits]


def _relieves(v: Verdict, suspect: Suspect) -> bool:
    """Return whether a change acts on the phase and leaves less of its loss, in pairs that met it."""
    acts = suspect.phase in touched_by(v.factor) and met(suspect, v.leaves)
    return acts and v.leaves.least.get(suspect.phase, 1.0) < suspect.share.mean


def _is_within(v: Verdict, limit: Verdict) -> bool:
    """Return whether a change acts on what a diagnostic change takes away, on little else, and brings no more."""
    acts, on = touched_by(v.factor), touched_by(limit.factor)
    waits = acts & on & {*WAITING}
    return bool(waits) and ALL_PHASES not in (acts, on) and v.effect.ratio <= limit.effect.ratio


def _factor_cause(v: Verdict, explained: Sequence[Suspect]) -> Cause:
    return Cause(factor=v.factor, phase=None, ratio=v.effect.ratio, text=_costs(v, explained), effect=v.effect)


def _costs(v: Verdict, suspects: Sequence[Suspect]) -> str:
    """Return what a supported change costs, with the place of that time, if it is one of the suspects'."""
    text = f"{v.cause} costs {time_taken(v.effect)} of the time, shown by {v.shown} ({effect(v.effect)})."
    placed = next((s for s in suspects if s.consists_of and _relieves(v, s)), None)
    return f"{text} It lies in {PHASE_NAMES[placed.phase]}: {placed.consists_of[0]}." if placed else text


def _limit_cause(v: Verdict) -> Cause:
    text = f"{v.cause} costs {time_taken(v.effect)} of the time: {_no_more_than(v)}"
    return Cause(factor=v.factor, phase=None, ratio=v.effect.ratio, text=text, effect=v.effect)


def _cause_within(limit: Verdict, parts: Sequence[Verdict], explained: Sequence[Suspect]) -> Cause:
    """Return the cause of what a limit shows, with the supported changes that take a part of it away."""
    best, *others = sorted(parts, key=lambda v: -v.gain)
    if _names(best, limit.effect.ratio):
        ratio, text = best.effect.ratio, f"{_costs(best, explained)}{_also(others)} {_no_more_than(limit, first=True)}"
    else:
        whole = _limit_cause(limit)
        ratio, text = whole.ratio, f"{whole.text} {_taken_by([best, *others])}"
    names = {"factor": best.factor, "limit": limit.factor}
    return Cause(**names, phase=None, ratio=ratio, text=text, effect=best.effect, most=limit.effect)


def _names(best: Verdict, whole: float) -> bool:
    """Return whether a change takes so much of a loss away that the cause is what it undoes."""
    return math.log(best.effect.ratio) >= MOSTLY * math.log(whole)


def _taken_by(parts: Sequence[Verdict]) -> str:
    return f"Shown to take a part of it away: {_listed(parts)}."


def _also(others: Sequence[Verdict]) -> str:
    return f" Shown to act on it, too: {_listed(others)}." if others else ""


def _listed(changes: Sequence[Verdict]) -> str:
    return "; ".join(f"{v.cause} ({v.shown}: {effect(v.effect)})" for v in changes[:MOST_SHOWN])


def _no_more_than(v: Verdict, first: bool = False) -> str:
    return (
        f"{'More' if first else 'more'} than {effect(v.effect)} can't be had from {limited_by(v.factor)}, shown by "
        f"{v.shown}, which is a limit and nothing to train with."
    )


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


def _cause_in_part(
    suspect: Suspect, stays: float, parts: Sequence[Verdict], verdicts: Sequence[Verdict], limit: Verdict | None
) -> Cause:
    """Return the cause of a phase with the supported changes that take a part of its time away."""
    best, *others = sorted(parts, key=lambda v: -v.gain)
    rest = f"{share(stays)} of today's time stays at least. {_beyond(suspect, verdicts, limit, 'all of it')}"
    if _names(best, suspect.ratio):
        ratio, text = best.effect.ratio, f"{_costs(best, [suspect])}{_also(others)} Of {_phase(suspect, first=False)} "
    else:
        ratio, text = suspect.ratio, f"{_lost(suspect, suspect.ratio)} {_taken_by([best, *others])} "
    return Cause(
        factor=best.factor,
        phase=suspect.phase,
        ratio=ratio,
        text=text + rest,
        effect=best.effect,
        share=suspect.share,
        headline=_headline(suspect, "it", suspect.ratio),
    )


def _phase_cause(
    suspect: Suspect, stays: float, verdicts: Sequence[Verdict], in_part: bool, limit: Verdict | None
) -> Cause:
    """Return the cause of a phase of which no change takes its time away; changes that bring more may take a part."""
    if in_part:
        explained = f"supported changes take a part of it away, and {share(stays)} of today's time stays at least"
    else:
        relieved = any(v.meaning is not Meaning.DIAGNOSTIC for v in _relieving(suspect, verdicts))
        explained = "no change that was tried " + ("was shown to save that time" if relieved else "explains it")
    ratio, stay = speed_up(stays), "what stays" if in_part else "that time"
    text = f"{_lost(suspect, ratio, f', and {explained}', stay)} {_beyond(suspect, verdicts, limit)}"
    headline = _headline(suspect, "what stays of it" if in_part else "it", ratio)
    return Cause(factor=None, phase=suspect.phase, ratio=ratio, text=text, share=suspect.share, headline=headline)


def _lost(suspect: Suspect, ratio: float, explained: str = "", without: str = "that time") -> str:
    """Return what a phase takes, why that is lost, what it consists of, and what it would bring, in sentences."""
    consists = f" It is {'; '.join(suspect.consists_of)}." if suspect.consists_of else ""
    takes = f"{_phase(suspect)} takes {share_span(suspect.share)} of the time; {suspect.why}{explained}.{consists}"
    return f"{takes} Without {without} the run would be {percent(ratio)} faster than today."


def _headline(suspect: Suspect, without: str, ratio: float) -> str:
    where = f" ({suspect.consists_of[0]})" if suspect.consists_of else ""
    takes = f"{_phase(suspect)} takes {share_span(suspect.share)} of the time{where}"
    return f"{takes}; without {without} the run would be about {percent(ratio)} faster."


def _beyond(suspect: Suspect, verdicts: Sequence[Verdict], limit: Verdict | None, what: str = "it") -> str:
    """Return what is known of the time that no supported change takes away: the limit, or where it goes."""
    return _no_more_than(limit, first=True) if limit else _where_it_goes(suspect, verdicts, what)


def _phase(suspect: Suspect, first: bool = True) -> str:
    """Return the phase as the subject of a sentence, at its beginning or not."""
    name = "time between the phases" if suspect.phase == "other" else PHASE_NAMES[suspect.phase]
    return f"{name[0].upper()}{name[1:]}" if first else name


def _where_it_goes(suspect: Suspect, verdicts: Sequence[Verdict], what: str) -> str:
    """Return a sentence that names the changes under which the time is gone, or says that no change takes it away."""
    relieving = _relieving(suspect, verdicts)
    shown = [f"{v.title_in_full} ({_outcome(v)})" for v in sorted(relieving, key=lambda v: -v.gain)[:MOST_SHOWN]]
    if shown and all(v.meaning is Meaning.DIAGNOSTIC for v in relieving):
        return f"It is gone under {', '.join(shown)}."
    if shown:
        return f"It is gone under {', '.join(shown)}, and these pairs do not show the run to be faster by that."
    if suspect.consists_of:
        return f"No change tested here removes {what}; fix it in that code."
    return f"No change tested here removes {what}: look at what your code does there."


def _relieving(suspect: Suspect, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the changes that act on the phase and under which its time is gone."""
    return [v for v in verdicts if suspect.phase in touched_by(v.factor) and gone(suspect, v.leaves)]


def _outcome(v: Verdict) -> str:
    kind = "a limit and no change to train with" if v.meaning is Meaning.DIAGNOSTIC else str(v.outcome)
    return f"{effect(v.effect)}, {kind}"
