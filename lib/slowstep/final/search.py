"""The search among combinations: finalists against each other, the winner confirmed, redundant changes left out.

A winner that was chosen by noise looks better than it is, so it is confirmed against the baseline with fresh pairs. A
change that the rest does not miss is redundant, and is dropped. So is one that delays the job's start by more than it
saves beside the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from slowstep.factors import Contrast, combine, label
from slowstep.final.combinations import FINALISTS, Candidate, Pick, finalists, names_of, with_conditions
from slowstep.final.job import NOT_SOONER, ends_sooner, job_of
from slowstep.final.own_words import shown_as
from slowstep.investigation.lab import Lab
from slowstep.investigation.record_specs import CONFIRMATION
from slowstep.investigation.results import Measured
from slowstep.judgement.projection import later_start
from slowstep.judgement.verdict import Outcome, Verdict

CONFIRMED = "final"
"""The name of the comparison family that confirms."""


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """A combination that was not confirmed, or with which the job does not end sooner."""

    measured: Measured
    text: str
    """The combination and the reason, in words."""


@dataclass(frozen=True, kw_only=True)
class Winner:
    """What the search among combinations found."""

    chosen: Measured | None
    """The combination that beats the others and was confirmed. Else the first that was not; None if there is none."""
    rejected: list[Rejected]
    head_to_heads: list[Measured]
    """The head-to-head comparisons that led to it."""


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """A combination from which changes were left out."""

    chosen: Measured
    dropped: list[str] = field(default_factory=list)
    """The changes that were left out, by their labels."""
    unshown: list[str] = field(default_factory=list)
    """The labels of changes that may be redundant: noise or want of time left open whether they are."""


def find_winner(lab: Lab, ranking: list[Candidate]) -> Winner:
    """Return the finalist that beats the others and is confirmed, and with which the job ends sooner."""
    rejected, head_to_heads = list[Rejected](), list[Measured]()
    for _ in range(FINALISTS):
        if not ranking:
            break
        champion, compared = head_to_head(lab, ranking)
        chosen = confirmed(lab, champion)
        if rejected and chosen.verdict.untried:
            break  # what was found is decided by records alone, so that a report decides as the measuring did
        head_to_heads += compared
        faster = chosen.verdict.outcome is Outcome.SUPPORTED
        if faster and ends_sooner(lab, chosen):
            return Winner(chosen=chosen, rejected=rejected, head_to_heads=head_to_heads)
        why = NOT_SOONER if faster else chosen.verdict.reason
        rejected.append(Rejected(measured=chosen, text=f"{shown_as(chosen, label(champion))} ({why})"))
        ranking = [c for c in ranking if not names_of(champion) <= c.names]
    unconfirmed = (one.measured for one in rejected if one.measured.verdict.outcome is not Outcome.SUPPORTED)
    return Winner(chosen=next(unconfirmed, None), rejected=rejected, head_to_heads=head_to_heads)


def head_to_head(lab: Lab, ranking: Sequence[Candidate]) -> tuple[tuple[Pick, ...], list[Measured]]:
    """Return the first of the ranking, unless another finalist is faster, and the head-to-head comparisons of them.

    If the other one starts later, it must be faster by so much that the job ends sooner.
    """
    champion, *challengers = finalists(ranking)
    job, compared = job_of(lab), list[Measured]()
    for challenger in challengers:
        one, other = (combine(lab.settings, with_conditions(c.picks), lab.machine) for c in (champion, challenger))
        if one.treatment.settings == other.treatment.settings:
            continue  # a level with its condition, and the same two by their names
        contrast = Contrast(levels=other.levels, against=one.levels, baseline=one.treatment, treatment=other.treatment)
        found = lab.compare(contrast, f"{label(challenger.picks)} against {label(champion.picks)}")
        both_named = replace(found.verdict, lines=[])  # a program's lines would name the challenger alone
        compared.append(replace(found, verdict=both_named))
        decided = found.verdict.outcome in (Outcome.SUPPORTED, Outcome.REFUTED)
        least = job.break_even(champion.gain, champion.later, challenger.later) if job else 1.0
        if decided and found.verdict.effect and found.verdict.effect.low > least:
            champion = challenger
    return champion.picks, compared


def without_redundant(lab: Lab, chosen: Measured, gains: Mapping[str, float]) -> Reduced:
    """Return the combination without redundant changes: those that bring nothing beside the others.

    Of two that do the same, one stays. They are left out one after another, the smallest gain first. Each that goes may
    be missed a little, so in the end the whole must not beat what remains.
    """
    levels = chosen.contrast.levels
    kept, dropped, unshown = list(levels), list[Pick](), list[str]()
    for pick in may_be_redundant(chosen, gains):
        found = beyond_the_rest(lab, kept, [pick]) if len(kept) > 1 else None
        if found is not None and found.outcome is Outcome.REFUTED:
            kept.remove(pick)
            dropped.append(pick)
        elif found is not None and found.outcome is not Outcome.SUPPORTED:
            unshown.append(label([pick]))
    if not dropped or (len(dropped) > 1 and missed(lab, levels, dropped)):
        return Reduced(chosen=chosen, unshown=unshown)
    smaller = confirmed(lab, kept)
    if smaller.verdict.outcome is not Outcome.SUPPORTED or not ends_sooner(lab, smaller):
        return Reduced(chosen=chosen, unshown=unshown)
    labels = [label([pick]) for pick in dropped]
    return Reduced(chosen=smaller, dropped=labels, unshown=unshown if len(kept) > 1 else [])


def without_late(lab: Lab, chosen: Measured, ranking: Sequence[Candidate]) -> Reduced:
    """Return the combination without changes that delay the job's start by more than they save.

    A part of the combination is expected to end sooner then. It is measured against the baseline as the whole was, and
    taken if its job is the shorter one. A delay below the minimum effect, as a part of the job, is not looked at.
    """
    job = job_of(lab)
    if job is None or chosen.verdict.outcome is not Outcome.SUPPORTED:
        return Reduced(chosen=chosen)
    names, later = names_of(chosen.contrast.levels), later_start(chosen.record)
    gain = job.gain(chosen.verdict.effect.mean, later)
    least = lab.settings.budget.minimum_effect * job.seconds * math.exp(-gain)
    parts = [c for c in ranking if c.names < names and c.gain > gain and later - c.later > least]
    if not parts:
        return Reduced(chosen=chosen)
    smaller = confirmed(lab, parts[0].picks)
    if smaller.verdict.outcome is not Outcome.SUPPORTED or not ends_sooner(lab, smaller, than=chosen):
        return Reduced(chosen=chosen)
    return Reduced(chosen=smaller, dropped=sorted(names - parts[0].names))


def may_be_redundant(chosen: Measured, gains: Mapping[str, float]) -> list[Pick]:
    """Return the levels that may bring nothing beside the others, the smallest gain first.

    With such a level, the combination's interval reaches down to the product of the single gains of the others.
    """
    levels, effect = chosen.contrast.levels, chosen.verdict.effect
    single = {pick[0].name: gains.get(label([pick])) for pick in levels}
    whole = None if None in single.values() else math.prod(single.values())

    def may_bring_nothing(pick: Pick) -> bool:
        return whole is None or effect is None or effect.low <= whole / single[pick[0].name]

    return sorted(filter(may_bring_nothing, levels), key=lambda pick: single[pick[0].name] or 1.0)


def missed(lab: Lab, levels: Sequence[Pick], picks: Sequence[Pick]) -> bool:
    """Return whether `picks` may bring something beyond the rest of `levels`, or are what the rest needs."""
    found = beyond_the_rest(lab, levels, picks)
    return found is None or found.outcome is not Outcome.REFUTED


def beyond_the_rest(lab: Lab, levels: Sequence[Pick], picks: Sequence[Pick]) -> Verdict | None:
    """Return the verdict on what `picks` bring beyond the rest of `levels`; None if the rest needs them."""
    rest = combine(lab.settings, with_conditions([p for p in levels if p not in picks]), lab.machine)
    whole = combine(lab.settings, with_conditions(levels), lab.machine)
    if rest.treatment.settings == whole.treatment.settings:
        return None
    contrast = Contrast(levels=with_conditions(picks), baseline=rest.treatment, treatment=whole.treatment)
    return lab.compare(contrast, f"{label(picks)} beyond {label(rest.levels)}").verdict


def confirmed(lab: Lab, picks: Sequence[Pick]) -> Measured:
    """Return the verdict on a combination against the baseline, from fresh pairs. Each such try counts among all."""
    combined = combine(lab.settings, with_conditions(picks), lab.machine)
    found = lab.judge([combined], CONFIRMED, purpose=CONFIRMATION)[0]
    return replace(found, contrast=replace(found.contrast, levels=tuple(picks)))
