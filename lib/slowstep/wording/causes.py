"""The causes that the whole investigation points at: supported changes and unexplained time in one ranking."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from slowstep.factors import ALL_PHASES, Meaning, is_undoing, limited_by, touched_by
from slowstep.factors.catalogue.gradient_checkpointing import MOST_TIMES
from slowstep.judgement.intervals import Interval
from slowstep.judgement.nodes import NODE, SlowNodes, against_first, slow_nodes
from slowstep.judgement.remaining import Remaining
from slowstep.judgement.shares import together
from slowstep.judgement.suspects import LOOP, PASSES, WAITING, Suspect, eased, function_at, gone, unexplained
from slowstep.judgement.throughput import speed_up
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.judgement.verdicts_together import best_levels
from slowstep.text.numbers import percent
from slowstep.text.sentences import capitalised
from slowstep.wording.lost import consists, gain_without, takes
from slowstep.wording.words import effect, phase_named, share, share_span, time_taken

MOST_SHOWN = 3
"""The most changes that are named beside a suspect."""

MOSTLY = 0.5
"""The part of a loss, in log-ratios, that a change must be able to take away, within its interval, to name the loss.
One that is shown to take less leaves the name to the loss: its cure is another one."""

A_PART = 1 / 3
"""The part of a loss, in log-ratios, that counts as a good part of it: what an estimate must reach to name it."""

MOST_LEFT = 0.5
"""The part of a phase's lost time from which on changes that are not its cause leave most of it."""

LARGER = "larger_batches"
WHOLES = ("processes", LARGER)
"""The factors that explain no phase's loss. Fewer processes do everything else, and have no slow one among them; larger
batches thin out whatever a step costs beside its samples. What they bring is the whole of all that is lost in such a
way, so these causes come after those that are a good part of it."""

FEW, HARDLY = 8, 3.0
"""The most samples that are few, and the speed-up by larger batches from which on a step hardly depends on its own
batch. One of more samples is mostly chosen for what is learned, so it is a cause only from that speed-up on."""

EVERYWHERE = ("freed_memory", "num_threads", "garbage_collection")
"""Factors that make all of a process faster, work in a wait as well. They name no wait of which something stays."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One loss of time, named by the factor of a supported change, or by the phase that loses it."""

    factor: str | None
    """The factor that names it; None if the phase does."""
    phase: str | None
    """The phase that names it, or whose loss the factor's change takes away in part or without proof."""
    ratio: float
    """The speed-up if the whole loss were gone: causes are ranked by it."""
    text: str
    effect: Interval | None = None
    """The effect of the factor's change, as a log-ratio."""
    share: Interval | None = None
    """The share of the wall time, 0 to 1, that the phase loses."""
    headline: str = ""
    """A phase's cause in one short sentence: its share, the place, and about what it would bring."""
    still_open: str = ""
    """What stays open of it when the supported changes are made; empty if nothing does."""
    left: tuple[float, str] | None = None
    """The speed-up without what they leave of it, and its headline; None if they take nothing away."""

    @property
    def size(self) -> tuple[float, float, float]:
        """Return the speed-up that it states, with its ends: of its factor's change, or of the phase's lost time."""
        if self.effect:
            return self.effect.ratio, self.effect.low, self.effect.high
        return self.ratio, min(self.ratio, speed_up(self.share.lower)), speed_up(self.share.upper)


def causes(
    verdicts: Sequence[Verdict], suspects: Sequence[Suspect], minimum: float, remaining: Remaining | None = None
) -> list[Cause]:
    """Return the causes, largest first.

    One loss of time is one cause: a phase stands with the supported changes that take a part of it away, and with the
    limit that a diagnostic change shows, and changes that act on one phase alone stand together. A change that takes a
    good part of a loss names it, unless it is shown to take less than half. A loop in Python and its way back through
    the backward pass are one loss. Limits that nothing else belongs to come last, unless they leave out what the run
    could do without. Wholes (`WHOLES`) come after whatever is a good part of them. Changes are left out that were
    compared beside settings which this run lacks. A slow node is a cause with what its ranks are seen to take longer.
    How much of a loss adopted changes leave is seen in the run with all of them (`remaining`).
    """
    known = [v for v in verdicts if not v.conditional]
    changes = best_levels([v for v in known if v.meaning is not Meaning.DIAGNOSTIC])
    changes = [v for v in changes if v.factor != LARGER or _is_small(v)]
    limits = best_levels([v for v in known if v.meaning is Meaning.DIAGNOSTIC])
    slow = slow_nodes(against_first(verdicts), minimum)
    there = [s for s in suspects if slow and _lies_there(s, slow, changes)]
    suspects = [s for s in suspects if s not in there]
    left = [remaining.left_by(v) if remaining else v.leaves for v in changes if v.factor not in WHOLES]
    open_ones = unexplained(suspects, left, minimum)
    explained = [s for s in suspects if s not in [one for one, _ in open_ones]]
    found = [_node_cause(slow, there)] if slow else []
    unchanged = dict[str, Suspect]()
    for suspect, stays in open_ones:
        parts = [v for v in changes if _takes_part(v, suspect) and _fits(v, suspect.most)]
        limit = next((v for v in limits if _takes_part(v, suspect) and _fits(v, suspect.most)), None)
        likely = None if parts else _likely_change(suspect, verdicts)
        if parts:
            beyond = _beyond(suspect, verdicts, limit, parts)
            found.append(_cause_in_part(suspect, stays, parts, beyond, _changed(parts, remaining)))
        elif likely:
            found.append(_undecided_cause(suspect, likely))
        else:
            found.append(_phase_cause(suspect, stays, verdicts, _beyond(suspect, verdicts, limit)))
            if stays >= suspect.share.mean:
                unchanged[suspect.phase] = suspect
        changes, limits = [v for v in changes if v not in parts], [v for v in limits if v is not limit]
    found = _with_ways_back(found, unchanged)
    ceilings = []
    for limit in limits:
        within = [v for v in changes if _is_within(v, limit)]
        changes = [v for v in changes if v not in within]
        if within:
            found.append(_cause_within(limit, within, explained))
        elif is_undoing(limit.factor):
            found.append(_limit_cause(limit))
        else:
            ceilings.append(_limit_cause(limit))
    for best, *others in _by_loss(changes):
        found.append(_factor_cause(best, best.effect.ratio, f"{_costs(best, explained)}{_also(others)}"))
    return _whole_after_parts(sorted(found, key=lambda c: -c.ratio), ceilings)


def _by_loss(changes: Sequence[Verdict]) -> Iterator[list[Verdict]]:
    """Yield changes in groups with one loss, in their order: those of one phase's time, and else each by itself."""
    groups = defaultdict[object, list[Verdict]](list)
    for v in changes:
        acts = touched_by(v.factor)
        groups[acts if len(acts) == 1 else v.factor].append(v)
    yield from groups.values()


def _whole_after_parts(ranked: Sequence[Cause], limits: Sequence[Cause]) -> list[Cause]:
    """Return causes, largest first, and limits behind them, but for wholes (`WHOLES`): each follows its good parts."""
    found = [*(c for c in ranked if c.factor not in WHOLES), *limits]
    for whole in (c for c in ranked if c.factor in WHOLES):
        parts = [at for at, cause in enumerate(found, 1) if _is_part(cause.ratio, whole.ratio)]
        found.insert(max(parts, default=0), whole)
    return found


def _is_small(v: Verdict) -> bool:
    """Return whether the run's own batches are a cause where larger ones are faster."""
    larger = v.overrides.get("training_arguments.per_device_train_batch_size", 0)
    return larger <= FEW * MOST_TIMES or v.effect.ratio >= HARDLY


def _takes_part(v: Verdict, suspect: Suspect) -> bool:
    """Return whether a change that acts on the phase is shown to leave less of its loss, in pairs that met it."""
    return _eases(v, suspect) and not (v.factor in EVERYWHERE and suspect.phase in WAITING)


def _eases(v: Verdict, suspect: Suspect) -> bool:
    return v.factor not in WHOLES and suspect.phase in touched_by(v.factor) and eased(suspect, v.leaves)


def _fits(v: Verdict, whole: float) -> bool:
    """Return whether a change may bring no more than the whole of a loss; one that does acts on other time, too."""
    return v.effect.low <= whole


def _is_within(v: Verdict, limit: Verdict) -> bool:
    """Return whether a change acts only on what a diagnostic change takes away, waits among it, and fits into that."""
    acts, on = touched_by(v.factor), touched_by(limit.factor)
    return acts <= on != ALL_PHASES and bool(acts & {*WAITING}) and _fits(v, limit.effect.high)


def _names(best: Verdict, whole: float) -> bool:
    """Return whether a change takes a good part of a loss away, and perhaps most: the cause is what it undoes."""
    return _is_part(best.effect.ratio, whole) and math.log(best.effect.high) >= MOSTLY * math.log(whole)


def _is_part(ratio: float, whole: float) -> bool:
    return math.log(ratio) >= A_PART * math.log(whole)


def _factor_cause(v: Verdict, ratio: float, text: str) -> Cause:
    return Cause(factor=v.factor, phase=None, ratio=ratio, text=text, effect=v.effect)


def _limit_cause(v: Verdict) -> Cause:
    costs = f"{v.cause} costs {time_taken(v.effect)} of the time"
    undoing = is_undoing(v.factor)
    where = f" ({v.shown})" if undoing and v.lines else ""
    headline = f"{costs}{where}; without it the run would be at most about {percent(v.effect.ratio)} faster."
    text = f"{costs}: {_no_more_than(v)}"
    cause = _factor_cause(v, v.effect.ratio, text)
    return replace(cause, headline=headline, still_open=text if undoing else "")


def _lies_there(suspect: Suspect, slow: SlowNodes, changes: Sequence[Verdict]) -> bool:
    """Return whether a rank is slow since its node is: the node explains as much, and no change takes a part of it."""
    fits = suspect.node in slow.numbers and suspect.ratio <= slow.gain.high
    return fits and not any(eased(suspect, v.leaves) for v in changes if v.factor not in WHOLES)


def _node_cause(slow: SlowNodes, there: Sequence[Suspect]) -> Cause:
    """Return the cause that all nodes wait for slow ones, with what their ranks are seen to take longer."""
    numbers = [str(number) for number in sorted(slow.numbers)]
    are = f"Node {numbers[0]} is" if len(numbers) == 1 else f"Nodes {', '.join(numbers[:-1])} and {numbers[-1]} are"
    text = (
        f"{are} slow: with the processes of one node alone, the same training is {effect(slow.gain)} faster on node "
        f"{slow.against} than on node {slow.numbers[0]}, and where all train together each step waits for the slowest. "
        "That is the most that can be had from nodes that are all alike."
    )
    seen = [f"{takes(s)}; {s.why}." for s in there]
    text = " ".join([text, *seen])
    headline = (
        f"{are} slow; with nodes that are all alike the run would be at most about {percent(slow.gain.ratio)} faster."
    )
    return Cause(
        factor=NODE,
        phase=None,
        ratio=slow.gain.ratio,
        text=text,
        effect=slow.gain,
        headline=headline,
        still_open=text,
    )


def _cause_within(limit: Verdict, parts: Sequence[Verdict], explained: Sequence[Suspect]) -> Cause:
    """Return the cause of what a limit shows, with the supported changes that take a part of it away."""
    best, *others = sorted(parts, key=lambda v: -v.gain)
    whole = max(limit.effect.ratio, best.effect.ratio)
    if _names(best, limit.effect.ratio):
        return _factor_cause(
            best, whole, f"{_costs(best, explained)}{_also(others)} {capitalised(_no_more_than(limit))}"
        )
    return _factor_cause(limit, whole, f"{_limit_cause(limit).text} {_taken_by([best, *others])}")


def _costs(v: Verdict, suspects: Sequence[Suspect]) -> str:
    """Return what a supported change costs, with the place of that time, if it is one of the suspects'."""
    text = f"{v.cause} costs {time_taken(v.effect)} of the time, shown by {_trial(v)} ({effect(v.effect)})."
    placed = next((s for s in suspects if s.at and _eases(v, s)), None)
    if placed is None:
        return text
    return f"{text} The time lies in {phase_named(placed.phase)} (by place, of all time: {placed.at})."


def _trial(v: Verdict) -> str:
    """Return a change as what shows something."""
    return f"training {v.shown}" if v.shown.startswith("without ") else v.shown


def _taken_by(parts: Sequence[Verdict]) -> str:
    take = "takes" if len(parts) == 1 else "each take"
    return f"{_listed(parts)} {take} a part of it away."


def _also(others: Sequence[Verdict]) -> str:
    if not others:
        return ""
    return f" {_listed(others)} {'acts' if len(others) == 1 else 'act'} on it, too."


def _listed(changes: Sequence[Verdict]) -> str:
    return "; ".join(f"{v.shown} ({effect(v.effect)})" for v in changes[:MOST_SHOWN])


def _no_more_than(v: Verdict) -> str:
    most = f"the most that can be had from {limited_by(v.factor)} is {effect(v.effect)}"
    if is_undoing(v.factor):
        return f"{most}, shown by {_trial(v)}. That trial is no training to keep: the program itself has to be changed."
    return f"{most}, shown by {_trial(v)}, which is a limit and nothing to train with."


def _likely_change(suspect: Suspect, verdicts: Sequence[Verdict]) -> Verdict | None:
    """Return the undecided change that acts on the phase and under which its time is gone; None if there is none.

    Of several, this is the one with the largest gain.
    """
    fits = [
        v
        for v in verdicts
        if v.outcome is Outcome.INCONCLUSIVE
        and v.factor not in WHOLES
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
        f"{takes(suspect)}; {suspect.why}. "
        f"Under {v.shown} it is gone, and what that brings over the whole, {effect(v.effect)}, could not be told from "
        "chance here: more pairs, or a quieter machine, would decide it."
    )
    return Cause(
        factor=v.factor, phase=suspect.phase, ratio=suspect.ratio, text=text, share=suspect.share, still_open=text
    )


def _cause_in_part(suspect: Suspect, stays: float, parts: Sequence[Verdict], beyond: str, after: str) -> Cause:
    """Return the cause of a phase with the supported changes that take a part of its time away.

    `after` names what is changed where it still loses what `stays`.
    """
    best, *others = sorted(parts, key=lambda v: -v.gain)
    loses = f"With {after} the run still loses at least {share(stays)} of today's time in {phase_named(suspect.phase)}."
    lost = _lost(suspect, suspect.ratio)
    still_open = f"{lost} {loses} {beyond}"
    if _names(best, suspect.ratio):
        text = f"{_costs(best, [suspect])}{_also(others)} {loses} {beyond}"
        cause = _factor_cause(best, max(suspect.ratio, best.effect.ratio), text)
        return replace(cause, phase=suspect.phase, still_open=still_open)
    headline = _headline(suspect, "what stays of it", speed_up(stays))
    return Cause(
        factor=None,
        phase=suspect.phase,
        ratio=suspect.ratio,
        text=f"{lost} {_taken_by([best, *others])} {loses} {beyond}",
        share=suspect.share,
        headline=headline,
        still_open=still_open,
        left=(speed_up(stays), headline),
    )


def _changed(parts: Sequence[Verdict], remaining: Remaining | None) -> str:
    """Return what is changed in a run that is known to lose something still."""
    if remaining and all(remaining.holds(v) for v in parts):
        return "all that is adopted"
    return "that change" if len(parts) == 1 else "these changes"


def _phase_cause(suspect: Suspect, stays: float, verdicts: Sequence[Verdict], beyond: str) -> Cause:
    """Return the cause of a phase whose loss no change explains; changes that do more may take a part of it away.

    Where they leave most of it, its size is that of today: they make it faster, as they do other time, and are not what
    it is lost by.
    """
    eased_in_part, whole = stays < suspect.share.mean, stays >= MOST_LEFT * suspect.share.mean
    if eased_in_part:
        explained = f"supported changes take a part of it away, and {share(stays)} of today's time stays at least"
    else:
        relieved = any(v.meaning is not Meaning.DIAGNOSTIC for v in _relieving(suspect, verdicts))
        explained = "no change that was tried " + ("was shown to save that time" if relieved else "explains it")
        if _not_reached(suspect, verdicts) and not _tried(suspect, verdicts):
            explained = "no change that acts on it was reached"
    left = speed_up(stays)
    what_stays = f"{_lost(suspect, left, f', and {explained}', 'what stays')} {beyond}"
    today = (
        f"{_lost(suspect, suspect.ratio, f', and {explained}', 'all of it' if eased_in_part else 'that time')} {beyond}"
    )
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


def _with_ways_back(found: Sequence[Cause], suspects: Mapping[str, Suspect]) -> list[Cause]:
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


def _is_the_same(suspect: Suspect, back: Suspect) -> bool:
    """Return whether a suspect does what `back` is the way back through.

    Between the phases no loop is told from other code; there most of the time is spent in the loop's function.
    """
    if suspect.rank is not None:
        return False
    if suspect.phase in PASSES:
        return bool(back.does_at) and (suspect.does, suspect.does_at) == (back.does, back.does_at)
    return function_at(suspect.at) == function_at(back.does_at) != ()


def _forth_and_back(forth: Cause, back: Cause, suspect: Suspect, way: Suspect) -> Cause:
    """Return the cause of what a suspect does with the `way` back through it."""
    both = together(forth.share, back.share)
    ratio = speed_up((1 - 1 / forth.ratio) + (1 - 1 / back.ratio))
    way_back = (
        f"Going back through {'that loop' if way.does == LOOP else 'that'} takes {share_span(back.share)} more, in the "
        f"backward pass. Without both the run would be {percent(ratio)} faster than today."
    )
    what = f"{capitalised(way.does)} ({suspect.at}) and the way back through it take {share_span(both)} of the time"
    return replace(
        forth,
        ratio=ratio,
        share=both,
        text=f"{forth.text} {way_back}",
        still_open=f"{forth.still_open} {way_back}",
        headline=f"{what}; without both the run would be about {percent(ratio)} faster.",
    )


def _lost(suspect: Suspect, ratio: float, explained: str = "", without: str = "that time") -> str:
    """Return what a phase takes, why that is lost, what it consists of, and what it would bring, in sentences."""
    parts = f"{takes(suspect)}; {suspect.why}{explained}. {consists(suspect)}".rstrip()
    gain = gain_without(suspect) if ratio == suspect.ratio else percent(ratio)
    return f"{parts} Without {without} the run would be {gain} faster than today."


def _headline(suspect: Suspect, without: str, ratio: float) -> str:
    rank = f"rank {suspect.rank}, which the others wait for" if suspect.rank is not None else ""
    where = f" ({', '.join(filter(None, (rank, suspect.at)))})" if rank or suspect.at else ""
    return f"{takes(suspect)}{where}; without {without} the run would be about {percent(ratio)} faster."


def _beyond(suspect: Suspect, verdicts: Sequence[Verdict], limit: Verdict | None, parts: Sequence[Verdict] = ()) -> str:
    """Return what is known of the time that no supported change takes away: the limit, or where it goes."""
    if limit and all(_fits(v, limit.effect.ratio) for v in parts):
        return capitalised(_no_more_than(limit))
    return _where_it_goes(suspect, verdicts, "all of it" if parts else "it")


def _where_it_goes(suspect: Suspect, verdicts: Sequence[Verdict], what: str) -> str:
    """Return a sentence that names the changes under which the time is gone, or says that no change takes it away."""
    relieving = _relieving(suspect, verdicts)
    shown = [f"{v.title_in_full} ({_outcome(v)})" for v in sorted(relieving, key=lambda v: -v.gain)[:MOST_SHOWN]]
    if shown and all(v.meaning is Meaning.DIAGNOSTIC for v in relieving):
        return f"It is gone under {', '.join(shown)}."
    if shown:
        return f"It is gone under {', '.join(shown)}, and these pairs do not show the run to be faster by that."
    if waiting := _not_reached(suspect, verdicts):
        names = ", ".join(v.shown for v in waiting[:MOST_SHOWN])
        if len(waiting) == 1:
            return f"{names} acts on it, and there was no time to try it."
        return f"{names} act on it, and there was no time to try them."
    if suspect.consists_of:
        return f"No change tested here removes {what}; fix it in that code."
    return f"No change tested here removes {what}: look at what your code does there."


def _not_reached(suspect: Suspect, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the changes that act on the phase, and not on all, for which there was no time.

    None acts on what a profile alone tells: a loop in the program's code, say.
    """
    return [v for v in verdicts if v.untried and suspect.comparable and _acts_there(v, suspect)]


def _tried(suspect: Suspect, verdicts: Sequence[Verdict]) -> bool:
    return any(v.effect is not None and _acts_there(v, suspect) for v in verdicts)


def _acts_there(v: Verdict, suspect: Suspect) -> bool:
    acts = touched_by(v.factor)
    return v.meaning is not Meaning.DIAGNOSTIC and suspect.phase in acts and acts != ALL_PHASES


def _relieving(suspect: Suspect, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the changes that act on the phase and under which its time is gone."""
    acting = [v for v in verdicts if v.factor not in WHOLES and suspect.phase in touched_by(v.factor)]
    return [v for v in acting if gone(suspect, v.leaves)]


def _outcome(v: Verdict) -> str:
    kind = "a limit and no change to train with" if v.meaning is Meaning.DIAGNOSTIC else str(v.outcome)
    return f"{effect(v.effect)}, {kind}"
