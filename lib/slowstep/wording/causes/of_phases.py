"""Causes that a phase names: time that no change explains, or only in part, with the way back through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slowstep.factors import Meaning
from slowstep.judgement.explaining import changes_that_remove, gains_at_most, is_main_cause, not_reached
from slowstep.judgement.remaining import Remaining
from slowstep.judgement.shares import together
from slowstep.judgement.suspects import LOOP, PASSES, Residual, Suspect, function_at, mostly_stays, place_at
from slowstep.judgement.throughput import speed_up
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.text.numbers import percent, unsigned
from slowstep.text.phases import phase_named
from slowstep.text.sentences import capitalised
from slowstep.wording.causes.cause import MOST_SHOWN, Cause
from slowstep.wording.causes.of_changes import also, costs, factor_cause, measured_too, no_more_than, taken_by
from slowstep.wording.lost import consists, gain_without, lost_in, takes
from slowstep.wording.words import effect, share, share_span

ADOPTED = "all that is adopted"
TODAY = "today's time"
SOME = 0.0005
"""The share of the time below which a figure would read 0.0 %."""


def undecided_cause(suspect: Suspect, v: Verdict) -> Cause:
    """Return the cause of a phase whose loss an undecided change takes away."""
    text = (
        f"{takes(suspect)}; {suspect.why}. "
        f"Under {v.shown} most of it is gone. What that brings over the whole, {effect(v.effect)}, is not decided: "
        f"{v.reason}."
    )
    return Cause(
        factor=v.factor, phase=suspect.phase, ratio=suspect.ratio, text=text, share=suspect.share, still_open=text
    )


def cause_in_part(
    suspect: Suspect,
    residual: Residual,
    parts: Sequence[Verdict],
    verdicts: Sequence[Verdict],
    limit: Verdict | None,
    remaining: Remaining | None,
) -> Cause:
    """Return the cause of a phase with the supported changes that take a part of its time away.

    `residual` is the share of today's time that it still loses with all that is changed.
    """
    after = _changed(parts, remaining)
    beyond, beyond_lost = (_beyond(suspect, verdicts, limit, parts, beside=told) for told in (False, True))
    best, *others = sorted(parts, key=lambda v: -v.gain)
    stays_lost = f"the run still loses {_at_least(residual)} of {TODAY} in {phase_named(suspect.phase)}."
    loses, lost = f"With {after} {stays_lost}", _lost(suspect, suspect.ratio)
    # it stands by itself, where nothing before it has named the changes
    named = after if after == ADOPTED else " and ".join(v.shown for v in (best, *others))
    still_open = f"{_lost(suspect, suspect.ratio, of=TODAY)} With {named} {stays_lost} {beyond_lost}"
    if is_main_cause(best, suspect.ratio):
        text = f"{costs(best, [suspect])}{also(others)} {loses} {beyond}"
        cause = factor_cause(best, max(suspect.ratio, best.effect.ratio), text)
        return replace(cause, phase=suspect.phase, still_open=still_open)
    left = speed_up(residual.likely)
    headline = _headline(suspect, "what stays of it", left)
    return Cause(
        factor=None,
        phase=suspect.phase,
        ratio=suspect.ratio,
        text=f"{lost} {taken_by([best, *others])} {loses} {beyond_lost}",
        share=suspect.share,
        headline=headline,
        still_open=still_open,
        left=(left, headline),
    )


def _changed(parts: Sequence[Verdict], remaining: Remaining | None) -> str:
    """Return what was changed in a run that is known to lose something all the same."""
    if remaining and all(remaining.holds(v) for v in parts):
        return ADOPTED
    return "that change" if len(parts) == 1 else "these changes"


def phase_cause(suspect: Suspect, residual: Residual, verdicts: Sequence[Verdict], limit: Verdict | None) -> Cause:
    """Return the cause of a phase whose loss no change explains; changes that do more may take a part of it away.

    Where they leave most of it, its size is that of today: they make it faster, as they do other time, and are not what
    it is lost by.
    """
    beyond = _beyond(suspect, verdicts, limit)
    eased_in_part = residual.least < suspect.share.mean
    whole = mostly_stays(suspect, residual)
    explained = ""
    if eased_in_part:
        about = f"about {share(residual.likely)} of {TODAY} stays"
        explained = f", and supported changes take a part of it away, and {about}"
    left = speed_up(residual.likely)
    what_stays = f"{_lost(suspect, left, explained, 'what stays')} {beyond}"
    all_lost = _lost(suspect, suspect.ratio, explained, "all of it" if eased_in_part else "that time")
    today = f"{all_lost} {_beyond(suspect, verdicts, limit, beside=True)}"
    headline_left = _headline(suspect, "what stays of it", left)
    return Cause(
        factor=None,
        phase=suspect.phase,
        ratio=suspect.ratio if whole else left,
        text=today if whole else what_stays,
        share=suspect.share,
        headline=_headline(suspect, "it", suspect.ratio) if whole else headline_left,
        still_open=what_stays if eased_in_part else today,
        left=(left, headline_left) if eased_in_part else None,
    )


def with_ways_back(found: Sequence[Cause], suspects: Mapping[str, Suspect]) -> list[Cause]:
    """Return the causes of phases, those of a loop in Python, say, together with those of its way back.

    `suspects` are theirs, by phase, of those that no change takes a part of.
    """
    causes = list(found)
    for back in [s for s in suspects.values() if s.back_through in suspects]:
        there = suspects[back.back_through]
        if _is_the_same(there, back):
            forth, way_back = (next(c for c in causes if c.phase == s.phase) for s in (there, back))
            causes.remove(way_back)
            causes[causes.index(forth)] = _forth_and_back(forth, way_back, there, back)
    return causes


def with_other_phases(found: Sequence[Cause], suspects: Sequence[Suspect]) -> list[Cause]:
    """Return causes with a note where a line of one takes time in the phase of another as well.

    One line may be slow in the passes and between them, say. It is told in each of these phases, with its part there.
    """
    phases = {cause.phase for cause in found}
    named = {s.phase: s.consists_of for s in suspects if s.phase in phases}

    def noted(cause: Cause) -> Cause:
        own = {place_at(part) for part in named.get(cause.phase, ())} - {""}
        also = [
            f"{part}, {lost_in(phase)}"
            for phase, parts in named.items()
            for part in parts
            if phase != cause.phase and place_at(part) in own
        ]
        note = f" The same code takes time elsewhere, too: {'; '.join(also)}."
        return replace(cause, text=f"{cause.text}{note}") if also else cause

    return [noted(cause) for cause in found]


def _is_the_same(suspect: Suspect, back: Suspect) -> bool:
    """Return whether a suspect does what `back` is the way back through.

    Between the phases no loop is told from other code; there most of the time is spent in the loop's function.
    """
    if suspect.rank is not None:
        return False
    if suspect.does or suspect.phase in PASSES:
        return suspect.is_gone_back_through(back)
    return function_at(suspect.at) == function_at(back.does_at) != ()


def _forth_and_back(forth: Cause, back: Cause, suspect: Suspect, way: Suspect) -> Cause:
    """Return the cause of what a suspect does with the `way` back through it."""
    both = together(forth.share, back.share)
    ratio = speed_up((1 - 1 / forth.ratio) + (1 - 1 / back.ratio))
    gain = unsigned(percent(ratio))
    way_back = (
        f"Going back through {'that loop' if way.does == LOOP else 'that'} takes {share_span(back.share)} more, in the "
        f"backward pass. Without both the run would be {gain} faster than today."
    )
    what = f"{capitalised(way.does)} ({suspect.at}) and the way back through it take {share_span(both)} of the time"
    return replace(
        forth,
        ratio=ratio,
        share=both,
        text=f"{forth.text} {way_back}",
        still_open=f"{forth.still_open} {way_back}",
        headline=f"{what}; without both the run would be about {gain} faster.",
    )


def _lost(suspect: Suspect, ratio: float, explained: str = "", without: str = "that time", of: str = "the time") -> str:
    """Return what a phase takes, why that is lost, what it consists of, and what it would bring, in sentences."""
    parts = f"{takes(suspect, of)}; {suspect.why}{explained}. {consists(suspect)}".rstrip()
    gain = unsigned(gain_without(suspect) if ratio == suspect.ratio else percent(ratio))
    return f"{parts} Without {without} the run would be {gain} faster than today."


def _headline(suspect: Suspect, without: str, ratio: float) -> str:
    rank = f"rank {suspect.rank}, which the others wait for" if suspect.rank is not None else ""
    where = f" ({', '.join(filter(None, (rank, suspect.at)))})" if rank or suspect.at else ""
    return f"{takes(suspect)}{where}; without {without} the run would be about {unsigned(percent(ratio))} faster."


def _beyond(
    suspect: Suspect,
    verdicts: Sequence[Verdict],
    limit: Verdict | None,
    parts: Sequence[Verdict] = (),
    beside: bool = False,
) -> str:
    """Return what is known of the time that no supported change takes away: the limit, and where it goes.

    It stands `beside` the speed-up that follows from the share of all that is lost, or by itself. Supported changes
    that take a `part` of that time away are named before.
    """
    if not (limit and all(gains_at_most(v, limit.effect.ratio) for v in parts)):
        return _where_it_goes(suspect, verdicts, parts)
    most = measured_too(limit, suspect.least) if beside else capitalised(no_more_than(limit))
    return most if parts else f"{most} {_where_it_goes(suspect, verdicts, [limit])}"


def _where_it_goes(suspect: Suspect, verdicts: Sequence[Verdict], named: Sequence[Verdict]) -> str:
    """Return a sentence on further changes: that the time is gone under these, or that none takes it away.

    `named` are those that are told before.
    """
    gone_under = sorted((v for v in changes_that_remove(suspect, verdicts) if v not in named), key=lambda v: -v.gain)
    if gone_under:
        shown = ", ".join(f"{v.title_in_full} ({_outcome(v)})" for v in gone_under[:MOST_SHOWN])
        faster = all(v.meaning is Meaning.DIAGNOSTIC or v.outcome is Outcome.SUPPORTED for v in gone_under)
        doubt = "" if faster else ", and these pairs do not show the run to be faster by that"
        return f"Most of it is gone under {shown}{doubt}."
    if waiting := not_reached(suspect, verdicts):
        names = ", ".join(v.shown for v in waiting[:MOST_SHOWN])
        act, them = ("acts", "it") if len(waiting) == 1 else ("act", "them")
        return f"{names} {act} on it, and there was no time to try {them}."
    look = "fix it in that code" if suspect.consists_of else "look at what your code does there"
    if not verdicts:
        return f"{capitalised(look)}."
    eased = any(v.outcome is Outcome.SUPPORTED and v.meaning is not Meaning.DIAGNOSTIC for v in named)
    removes = f"No change tested here removes {'all of it' if eased else 'it'}"
    return f"{removes if _some_were_tried(verdicts) else 'No change was tested here'}; {look}."


def _some_were_tried(verdicts: Sequence[Verdict]) -> bool:
    """Return whether a trial of any change was made, and tells of it: no bound is one."""
    return any(v.effect is not None for v in verdicts)


def _at_least(residual: Residual) -> str:
    """Return the share of the time that certainly stays lost; the likely one, where none is certain."""
    return f"at least {share(residual.least)}" if residual.least >= SOME else f"about {share(residual.likely)}"


def _outcome(v: Verdict) -> str:
    kind = "a limit and no change to train with" if v.meaning is Meaning.DIAGNOSTIC else str(v.outcome)
    return f"{effect(v.effect)}, {kind}"
