"""The causes that the whole investigation points at: supported changes and unexplained time in one ranking."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from slowstep.factors import Meaning, is_undoing, touched_by
from slowstep.judgement.explaining import (
    ACT_ON_ALL_PHASES,
    LARGER_BATCHES,
    are_small_batches,
    is_good_part,
    is_within,
    likely_change,
    removes_part,
)
from slowstep.judgement.nodes import against_first, slow_nodes
from slowstep.judgement.remaining import Remaining
from slowstep.judgement.suspects import Residual, Suspect, unexplained
from slowstep.judgement.verdict import Verdict
from slowstep.judgement.verdicts_together import best_levels
from slowstep.wording.causes.cause import Cause
from slowstep.wording.causes.of_changes import also, cause_within, costs, factor_cause, limit_cause
from slowstep.wording.causes.of_nodes import lies_there, node_cause
from slowstep.wording.causes.of_phases import (
    cause_in_part,
    phase_cause,
    undecided_cause,
    with_other_phases,
    with_ways_back,
)


def causes(
    verdicts: Sequence[Verdict], suspects: Sequence[Suspect], minimum: float, remaining: Remaining | None = None
) -> list[Cause]:
    """Return the causes, largest first.

    One loss of time is one cause. Limits that no other cause belongs to come last, unless they leave out what the run
    could do without. A factor that acts on all phases comes after each loss that is a good part of it. Changes that
    were compared beside settings which this run lacks are left out. How much of a loss the adopted changes leave is
    seen in the run with all of them (`remaining`).
    """
    known = [v for v in verdicts if not v.conditional]
    changes = best_levels([v for v in known if v.meaning is not Meaning.DIAGNOSTIC])
    changes = [v for v in changes if v.factor != LARGER_BATCHES or are_small_batches(v)]
    limits = best_levels([v for v in known if v.meaning is Meaning.DIAGNOSTIC])
    slow = slow_nodes(against_first(verdicts), minimum)
    there = [s for s in suspects if slow and lies_there(s, slow, changes)]
    suspects = [s for s in suspects if s not in there]
    left = [remaining.left_by(v) if remaining else v.leaves for v in changes if v.factor not in ACT_ON_ALL_PHASES]
    open_ones = unexplained(suspects, left, minimum)
    explained = [s for s in suspects if s not in [one for one, _ in open_ones]]
    of_nodes = [node_cause(slow, there)] if slow else []
    of_phases, changes, limits = _of_phases(open_ones, changes, limits, verdicts, remaining)
    of_limits, ceilings, changes = _of_limits(limits, changes, explained)
    found = [*of_nodes, *of_phases, *of_limits, *_of_changes(changes, explained)]
    return _ordered(sorted(found, key=lambda c: -c.ratio), ceilings)


def _of_phases(
    open_ones: Sequence[tuple[Suspect, Residual]],
    changes: Sequence[Verdict],
    limits: Sequence[Verdict],
    verdicts: Sequence[Verdict],
    remaining: Remaining | None,
) -> tuple[list[Cause], Sequence[Verdict], Sequence[Verdict]]:
    """Return the causes of phases with lost time, and the changes and limits that belong to none of them.

    `open_ones` holds each phase with what it still loses under the supported changes. A phase stands with the supported
    changes that take a part of its loss away, and with the limit that a diagnostic change shows. A change that takes a
    good part of a loss names it, unless it is shown to take less than half. A loop in Python and its way back through
    the backward pass are one loss.
    """
    found, unchanged = list[Cause](), dict[str, Suspect]()
    for suspect, residual in open_ones:
        parts = [v for v in changes if removes_part(v, suspect)]
        limit = next((v for v in limits if removes_part(v, suspect)), None)
        likely = None if parts else likely_change(suspect, verdicts)
        if parts:
            found.append(cause_in_part(suspect, residual, parts, verdicts, limit, remaining))
        elif likely:
            found.append(undecided_cause(suspect, likely))
        else:
            found.append(phase_cause(suspect, residual, verdicts, limit))
            if residual.least >= suspect.share.mean:
                unchanged[suspect.phase] = suspect
        changes, limits = [v for v in changes if v not in parts], [v for v in limits if v is not limit]
    told = with_other_phases(with_ways_back(found, unchanged), [suspect for suspect, _ in open_ones])
    return told, changes, limits


def _of_limits(
    limits: Sequence[Verdict], changes: Sequence[Verdict], explained: Sequence[Suspect]
) -> tuple[list[Cause], list[Cause], Sequence[Verdict]]:
    """Return the causes of limits, those of limits that stand alone, and the changes that belong to no limit.

    A limit stands with the supported changes that take a part of it away.
    """
    found, ceilings = list[Cause](), list[Cause]()
    for limit in limits:
        within = [v for v in changes if is_within(v, limit)]
        changes = [v for v in changes if v not in within]
        if within:
            found.append(cause_within(limit, within, explained))
        elif is_undoing(limit.factor):
            found.append(limit_cause(limit))
        else:
            ceilings.append(limit_cause(limit))
    return found, ceilings, changes


def _of_changes(changes: Sequence[Verdict], explained: Sequence[Suspect]) -> Iterator[Cause]:
    """Yield the causes that changes name by themselves. Changes that act on one phase alone stand together."""
    for best, *others in _by_loss(changes):
        yield factor_cause(best, best.effect.ratio, f"{costs(best, explained)}{also(others)}")


def _by_loss(changes: Sequence[Verdict]) -> Iterator[list[Verdict]]:
    """Yield changes in groups with one loss, in their order: those of one phase's time, and else each by itself."""
    groups = defaultdict[object, list[Verdict]](list)
    for v in changes:
        acts = touched_by(v.factor)
        groups[acts if len(acts) == 1 else v.factor].append(v)
    yield from groups.values()


def _ordered(ranked: Sequence[Cause], limits: Sequence[Cause]) -> list[Cause]:
    """Return causes, largest first, and limits behind them.

    A factor that acts on all phases follows the causes that are a good part of its gain.
    """
    found = [*(c for c in ranked if c.factor not in ACT_ON_ALL_PHASES), *limits]
    for whole in (c for c in ranked if c.factor in ACT_ON_ALL_PHASES):
        parts = [at for at, cause in enumerate(found, 1) if is_good_part(cause.ratio, whole.ratio)]
        found.insert(max(parts, default=0), whole)
    return found
