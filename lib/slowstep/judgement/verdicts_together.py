"""Verdicts seen together: corrected for their number and by fresh pairs, and the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slowstep.judgement.comparison import OVERALL_P
from slowstep.judgement.intervals import NOMINAL_P
from slowstep.judgement.verdict import Outcome, Verdict, span

REFUTED_AGAIN = "refuted by fresh ones"


def holm(verdicts: Sequence[Verdict], others: int = 0) -> list[Verdict]:
    """Correct support by Holm's method (Scandinavian Journal of Statistics 6, 1979), over the comparisons measured.

    A p at one look stands for a p over all looks that is OVERALL_P / NOMINAL_P times as large. `others` were measured
    before, and count as if each of them were to be corrected still: they are not looked at again.
    """
    measured = sorted((v for v in verdicts if v.effect is not None), key=lambda v: v.effect.p)
    rejected, still = set(), True
    for i, verdict in enumerate(measured):
        still = still and verdict.effect.p * (len(measured) + others - i) <= NOMINAL_P
        if not still and verdict.outcome is Outcome.SUPPORTED:
            rejected.add(verdict.name)
    reason = f"not told from chance after correcting for {len(measured) + others} comparisons (Holm at {OVERALL_P:.0%})"
    return [
        replace(v, outcome=Outcome.INCONCLUSIVE, reason=f"{reason}; {v.reason}") if v.name in rejected else v
        for v in verdicts
    ]


def reconsidered(verdicts: Sequence[Verdict], again: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts, corrected by later ones on the same changes.

    Support that fresh pairs refute is refuted, and support that they do not confirm while they exclude its size is
    undecided: the change that looks best of many often owes that to noise (the winner's curse). Such a verdict is that
    of the fresh pairs alone, which chose nothing. Where they decide nothing, support stays with its doubt.
    """
    later = {v.name: v for v in again if v.effect is not None}
    found = []
    for v in verdicts:
        fresh = later.get(v.name)
        against = _against(v, fresh) if fresh and v.outcome is Outcome.SUPPORTED else ""
        if against:
            reason = f"supported by the pairs that found it ({span(v.effect)}), and {against}"
            outcome = Outcome.REFUTED if against == REFUTED_AGAIN else Outcome.INCONCLUSIVE
            found.append(replace(fresh, least=v.least, bound=v.bound, outcome=outcome, reason=reason))
        elif fresh and v.outcome is Outcome.SUPPORTED and fresh.outcome is Outcome.INCONCLUSIVE and fresh.tells:
            found.append(replace(v, doubt=f"fresh pairs did not confirm it ({span(fresh.effect)})"))
        else:
            found.append(v)
    return found


def _against(v: Verdict, fresh: Verdict) -> str:
    """Return what fresh pairs say against a supported change, as a clause; empty if they say nothing against it."""
    if fresh.outcome is Outcome.REFUTED or (fresh.tells and fresh.effect.high < 1 + v.least):
        return REFUTED_AGAIN
    if fresh.outcome is Outcome.INCONCLUSIVE and fresh.tells and fresh.effect.high < v.effect.ratio:
        return f"not confirmed by fresh ones, which exclude that size ({span(fresh.effect)})"
    return ""


def best_levels(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the best supported level of each factor that was changed alone, largest gain first."""
    best: dict[str, Verdict] = {}
    for v in sorted(verdicts, key=lambda v: -v.gain):
        if v.outcome is Outcome.SUPPORTED and v.alone:
            best.setdefault(v.factor, v)
    return list(best.values())


def best_together(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the supported change of several factors with the largest gain beyond what single levels show.

    It holds a level that is not supported by itself, and brings more, beyond chance, than those that are. The list is
    empty if there is none.
    """
    parts = best_levels(verdicts)
    known = {key: value for part in parts for key, value in part.overrides.items()}
    found = [
        v
        for v in verdicts
        if v.outcome is Outcome.SUPPORTED
        and not v.alone
        and not v.overrides.items() <= known.items()
        and all(part.effect.upper < v.effect.lower for part in parts if part.overrides.items() <= v.overrides.items())
    ]
    return sorted(found, key=lambda v: -v.gain)[:1]
