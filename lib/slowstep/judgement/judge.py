"""The judging of a hypothesis that was declared before the measurement: before its trial, and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slowstep.factors import Contrast, Meaning
from slowstep.judgement import losses
from slowstep.judgement.bounds import bound
from slowstep.judgement.change_seen import made_lines, missing_change, planned_lines, replaced
from slowstep.judgement.comparison import FEWEST_PAIRS, ComparisonResult, Reading, result_of
from slowstep.judgement.controls import moved_controls, uncovered_waits
from slowstep.judgement.first_reads import FirstReads
from slowstep.judgement.intervals import Interval
from slowstep.judgement.missed import JudgedComparison, RunContext, why_not_refuted, why_not_supported
from slowstep.judgement.notes import notes_on
from slowstep.judgement.run_facts import RunFacts, flops_of
from slowstep.judgement.shares import with_event
from slowstep.judgement.suspects import PASSES, lost
from slowstep.judgement.throughput import sides, works
from slowstep.judgement.timeline import timeline
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.records import PHASES, Block, ComparisonRecord, Status, TrialRecord
from slowstep.text.numbers import MOST, asked, percent, told_apart
from slowstep_probe.changing.intervention import KEYWORDS

LOSSES_BY_CHANCE = (
    "the run as it is has other losses in each launch, from the same seed, so losses show nothing of what is trained, "
    "and it rests on the class that it is exact"
)
"""The note on an exact change of a run that is not reproducible: an environment, or a generator, without a seed."""

TRAINS_OTHERWISE = (
    "the first losses differ from the baseline's, and a change that leaves training as it is can't cause "
    "that: for this program it is other training"
)
"""Why a change that is exact by its class is not judged if it changes the losses."""


def before_trial(contrast: Contrast, facts: RunFacts | None, minimum: float, epoch: int | None) -> Verdict:
    """Return the verdict that needs no trial, or an inconclusive one if a trial is needed.

    `minimum` is the minimum effect (0.05 for 5 %), and `epoch` the samples of an epoch.
    """
    factor, level = contrast.levels[0]
    verdict = Verdict(
        name=contrast.name,
        factor=factor.name,
        title=factor.title,
        hypothesis=factor.hypothesis,
        cause=factor.cause_at(level, contrast.baseline.settings.run),
        meaning=contrast.meaning,
        changes="; ".join(f.changes for f, at in contrast.levels if f.meaning_of(at) is contrast.meaning),
        alone=len(contrast.levels) == 1,
        held_constant=contrast.held_constant,
        overrides=contrast.overrides,
        least=contrast.least if contrast.least >= minimum else 0.0,
        lines=planned_lines(contrast),
        outcome=Outcome.INCONCLUSIVE,
        reason="not measured",
    )
    if contrast.untestable:
        return replace(verdict, outcome=Outcome.NOT_TESTABLE, reason=contrast.untestable)
    bounded = facts and verdict.alone and not contrast.held_constant  # the facts are those of the run as it is
    limit = bound(factor.bound, facts, level.value, epoch) if bounded else None
    if limit and limit.suffices and limit.ratio - 1 < minimum:
        reason = f"refuted by its bound, without a trial: {limit}"
        return replace(verdict, outcome=Outcome.REFUTED, bound=limit, reason=reason)
    if contrast.unmet:
        return replace(verdict, outcome=Outcome.NOT_TESTABLE, bound=limit, reason=contrast.unmet)
    return replace(verdict, bound=limit)


def judge(
    prior: Verdict,
    contrast: Contrast,
    record: ComparisonRecord,
    minimum: float,
    device: str,
    context: RunContext | None = None,
) -> Verdict:
    """Return the verdict on a comparison; `prior` was known before it. Holm's correction comes later (`holm`).

    `minimum` is the minimum effect (0.05 for 5 %), and `context` what is known of the run beside these pairs. First
    comes whether the pairs can be trusted at all, then what their interval says, and last whether they missed
    something of the run that would say otherwise.
    """
    context = context or RunContext()
    if failed := _failure(record):
        outcome, reason = failed
        return replace(prior, outcome=outcome, reason=reason, status=_failed_status(record))
    if len(record.pairs) < FEWEST_PAIRS:
        return replace(prior, reason=f"{len(record.pairs)} pairs of blocks are too few to judge", status=Status.OK)
    result, left = result_of(record.pairs), _time_lost(record.treatment, sides(record.pairs)[1])
    verdict = _with_figures(prior, contrast, record, result, left, context.reads)
    if missing := missing_change(contrast, record):
        return replace(verdict, outcome=Outcome.NOT_TESTABLE, reason=f"the change did not take effect: {missing}")
    verdict = _checked(verdict, contrast, record, device, context)
    if not verdict.tells:
        return verdict
    compared = JudgedComparison(
        contrast=contrast, record=record, result=result, minimum=minimum, device=device, before=verdict.before
    )
    outcome, reason = _outcome_of(result, minimum)
    missed = _missed(outcome, compared, context)
    if missed:
        outcome, reason = Outcome.INCONCLUSIVE, missed
    if outcome is Outcome.SUPPORTED and result.reading is Reading.EQUAL:  # it reaches a lesser minimum effect
        verdict = replace(verdict, reading=Reading.FASTER)
    most = {phase: share.upper for phase, share in left.items()}
    return replace(verdict, outcome=outcome, reason=reason, left_at_most=most, tells=not missed)


def _checked(
    verdict: Verdict, contrast: Contrast, record: ComparisonRecord, device: str, context: RunContext
) -> Verdict:
    """Return the verdict with warnings on its pairs, or as one that says nothing if these can't be trusted.

    They can't if a phase moved that the change can't touch, or if an exact change trains otherwise.
    """
    prepared_ahead = _may_prepare_ahead(record, device)
    if moved := moved_controls(record.pairs, contrast.touched(device), prepared_ahead):
        return _uninformative(verdict, "something else changed between the arms: " + "; ".join(map(str, moved)))
    uncovered = uncovered_waits(record.pairs, contrast.touches) if prepared_ahead else []
    is_exact = verdict.meaning is Meaning.EXACT
    by_chance = is_exact and context.noise is not None and losses.same(context.noise) is False
    verdict = replace(verdict, warnings=[*map(str, uncovered), *verdict.warnings, *[LOSSES_BY_CHANCE] * by_chance])
    if is_exact and not by_chance and losses.same(record, _changes_loader_alone(contrast)) is False:
        return _uninformative(verdict, TRAINS_OTHERWISE)
    return verdict


def _missed(outcome: Outcome, compared: JudgedComparison, context: RunContext) -> str:
    """Return why the pairs do not decide as their interval does; an empty text if they do."""
    if outcome is Outcome.REFUTED:
        return why_not_refuted(compared, context)
    return why_not_supported(compared, context) if outcome is Outcome.SUPPORTED else ""


def _with_figures(
    prior: Verdict,
    contrast: Contrast,
    record: ComparisonRecord,
    result: ComparisonResult,
    left: Mapping[str, Interval],
    reads: FirstReads | None,
) -> Verdict:
    """Return `prior` with what was measured; `left` is the share of the time that each phase of the treatment loses."""
    baseline, treatment = sides(record.pairs)
    lost_before = {p: share.mean for p, share in _time_lost(record.baseline, baseline).items() if p in PASSES}
    bound_here = None if reads and reads.matters else prior.bound  # it is that of steps that read from disk
    return replace(
        prior,
        effect=result.effect,
        reading=result.reading,
        status=Status.OK,
        left={phase: share.lower for phase, share in left.items()},
        before=_shares(baseline) | lost_before,
        steps=_steps_for_one(baseline, treatment),
        loss_change=losses.change(record),
        warnings=notes_on(record, result, bound_here, exact=prior.meaning is Meaning.EXACT),
        lines=made_lines(contrast, record) or prior.lines,
        replaces=replaced(contrast, record),
    )


def _uninformative(verdict: Verdict, reason: str) -> Verdict:
    """Return the verdict on pairs that say nothing of the change."""
    return replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=reason, tells=False)


def _outcome_of(result: ComparisonResult, minimum: float) -> tuple[Outcome, str]:
    """Return what the interval says of a change that has to reach the minimum effect, and why."""
    effect, least = result.effect, 1 + minimum
    reached, gains = f"the minimum effect of {asked(minimum)}", "the whole interval lies above zero"
    gains += _exact_end("from", effect.low, 1.0)
    if effect.high < least:
        smaller = "; there is a gain, and it is smaller" if effect.low > 1 else ""
        return (
            Outcome.REFUTED,
            f"the whole interval lies below {reached}{_exact_end('up to', effect.high, least)}{smaller}",
        )
    if effect.low >= least:
        return Outcome.SUPPORTED, f"the whole interval lies above {reached}{_exact_end('from', effect.low, least)}"
    if effect.low > 1 and effect.ratio >= least:
        return Outcome.SUPPORTED, f"{gains}, and the estimate reaches {reached}"
    if effect.low > 1:
        open_yet = f"after {effect.n} pairs it is not known whether the gain reaches {reached}"
        return Outcome.INCONCLUSIVE, f"{gains}, and {open_yet}"
    return (
        Outcome.INCONCLUSIVE,
        f"after {effect.n} pairs both no gain and {reached} are possible; "
        f"in this noise an effect below {percent(min(result.detectable, MOST))} could not have been seen",
    )


def _exact_end(which: str, end: float, limit: float) -> str:
    """Return a note with more decimals on an end of an interval that looks like the limit it is held against."""
    shown = told_apart(end, limit)
    return f" ({which} {shown})" if shown else ""


def _failure(record: ComparisonRecord) -> tuple[Outcome, str] | None:
    if record.baseline.status is not Status.OK:
        return Outcome.INCONCLUSIVE, f"the baseline itself failed ({_status_text(record.baseline)})"
    if record.treatment.status is not Status.OK:
        return Outcome.NOT_TESTABLE, _status_text(record.treatment)
    return None


def _failed_status(record: ComparisonRecord) -> Status:
    return record.treatment.status if record.baseline.status is Status.OK else record.baseline.status


def _status_text(trial: TrialRecord) -> str:
    return trial.reason if trial.status is Status.NOT_TESTABLE else trial.failure


def _may_prepare_ahead(record: ComparisonRecord, device: str) -> bool:
    """Return whether batches may be made ready beside training: on a processor alone, loader workers have to do that.

    A loader that nobody saw may have some, or threads.
    """
    workers = {trial.observed.get("dataloader_num_workers") for trial in (record.baseline, record.treatment)}
    return device != "cpu" or workers != {0}


def _changes_loader_alone(contrast: Contrast) -> bool:
    """Return whether a command's loader alone is changed, which gives its dataset other random numbers."""
    command = contrast.treatment.settings.command is not None
    return command and all(key in KEYWORDS for key in contrast.overrides)


def _steps_for_one(baseline: Sequence[Block], treatment: Sequence[Block]) -> float:
    """Return the steps that the treatment takes for the work of one of the baseline's."""
    before, after = (
        sum(block.steps for block in blocks) / sum(done)
        for blocks, done in zip((baseline, treatment), works(baseline, treatment), strict=True)
    )
    return after / before


def _shares(blocks: Sequence[Block]) -> dict[str, float]:
    """Return the share of the time of all blocks, 0 to 1, that each phase takes."""
    whole = sum(b.seconds for b in blocks)
    return {phase: sum(b.phases.get(phase, 0.0) for b in blocks) / whole for phase in PHASES}


def _time_lost(trial: TrialRecord, blocks: Sequence[Block]) -> dict[str, Interval]:
    """Return the share of the wall time that each phase of one arm loses, in its steps and in its periodic events."""
    found = lost(timeline(trial.steps), flops_of(blocks, trial.observed))
    return found | {event: with_event(found[event], alone) for event, alone in _events_in(blocks).items()}


def _events_in(blocks: Sequence[Block]) -> dict[str, Interval]:
    """Return the share of the time of some blocks that each event takes which was timed beside their steps."""
    found = {}
    for event in sorted({event for block in blocks for event in block.amortised}):
        each = [block.amortised.get(event, 0.0) / block.seconds for block in blocks]
        mean = sum(block.amortised.get(event, 0.0) for block in blocks) / sum(block.seconds for block in blocks)
        found[event] = Interval(mean=mean, lower=min(each), upper=max(each), p=1.0, n=len(each))
    return found
