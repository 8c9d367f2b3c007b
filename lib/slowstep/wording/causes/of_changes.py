"""Causes that a change names: what it undoes, and limits that diagnostic changes show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slowstep.factors import is_undoing, limited_by
from slowstep.judgement.explaining import eases, is_main_cause
from slowstep.judgement.suspects import Suspect
from slowstep.judgement.verdict import Verdict
from slowstep.text.numbers import percent, unsigned
from slowstep.text.phases import phase_named
from slowstep.text.sentences import capitalised, sentence
from slowstep.wording.causes.cause import MOST_SHOWN, Cause
from slowstep.wording.words import effect, time_taken


def factor_cause(v: Verdict, ratio: float, text: str) -> Cause:
    """Return the cause that a change names; `ratio` is the speed-up if the whole loss were gone."""
    return Cause(factor=v.factor, phase=None, ratio=ratio, text=text, effect=v.effect)


def limit_cause(v: Verdict) -> Cause:
    """Return the cause of what a diagnostic change takes away, which is a limit."""
    lost = f"{v.cause} costs {time_taken(v.effect)} of the time"
    undoing = is_undoing(v.factor)
    where = f" ({v.shown})" if undoing and v.lines else ""
    gain = unsigned(percent(v.effect.ratio))
    headline = f"{lost}{where}; without it the run would be at most about {gain} faster."
    text = f"{lost}: {no_more_than(v)}"
    cause = factor_cause(v, v.effect.ratio, text)
    return replace(cause, headline=headline, still_open=text if undoing else "")


def cause_within(limit: Verdict, parts: Sequence[Verdict], explained: Sequence[Suspect]) -> Cause:
    """Return the cause of what a limit shows, with the supported changes that take a part of it away."""
    best, *others = sorted(parts, key=lambda v: -v.gain)
    whole = max(limit.effect.ratio, best.effect.ratio)
    if is_main_cause(best, limit.effect.ratio):
        return factor_cause(best, whole, f"{costs(best, explained)}{also(others)} {capitalised(no_more_than(limit))}")
    return factor_cause(limit, whole, f"{limit_cause(limit).text} {taken_by([best, *others])}")


def costs(v: Verdict, suspects: Sequence[Suspect]) -> str:
    """Return what a supported change costs, with the place of that time, if it is one of the suspects'."""
    text = f"{v.cause} costs {time_taken(v.effect)} of the time, shown by {_trial(v)} ({effect(v.effect)})."
    text += f" {sentence(v.doubt)}" * bool(v.doubt)
    placed = next((s for s in suspects if s.at and eases(v, s)), None)
    if placed is None:
        return text
    return f"{text} The time lies in {phase_named(placed.phase)} (by place, of all time: {placed.at})."


def _trial(v: Verdict) -> str:
    """Return a change as what shows something."""
    return f"training {v.shown}" if v.shown.startswith("without ") else v.shown


def taken_by(parts: Sequence[Verdict]) -> str:
    """Return a sentence that names the changes which take a part away."""
    take = "takes" if len(parts) == 1 else "each take"
    return f"{_listed(parts)} {take} a part of it away."


def also(others: Sequence[Verdict]) -> str:
    """Return a sentence that names further changes which act on a loss; empty without any."""
    if not others:
        return ""
    return f" {_listed(others)} {'acts' if len(others) == 1 else 'act'} on it, too."


def _listed(changes: Sequence[Verdict]) -> str:
    return "; ".join(f"{v.shown} ({effect(v.effect)})" for v in changes[:MOST_SHOWN])


def no_more_than(v: Verdict) -> str:
    """Return the most that can be had, by a diagnostic change, as a sentence that begins small."""
    most = f"the most that can be had from {limited_by(v.factor)} is {effect(v.effect)}"
    if is_undoing(v.factor):
        return f"{most}, shown by {_trial(v)}. That trial is no training to keep: the program itself has to be changed."
    return f"{most}, shown by {_trial(v)}, which is a limit and nothing to train with."


def measured_too(v: Verdict, least: float) -> str:
    """Return what a diagnostic change shows beside the speed-up that a share of the time says, as a sentence.

    `least` is the lower end of that speed-up.
    """
    kind = "no training to keep" if is_undoing(v.factor) else "a limit and nothing to train with"
    agrees = "which agrees" if v.effect.high >= least else "which is less than that share says"
    measured = f"{_trial(v)}, measured {effect(v.effect)}, {agrees}"
    return f"The trial that shows the most to be had there, {measured}; it is {kind}."
