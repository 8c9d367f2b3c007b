"""Verdicts in paragraphs that a manager understands: what, how sure, how much, what to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from slowstep.factors import ALL_PHASES, Meaning, limited_by, touched_by
from slowstep.investigation.results import Baseline
from slowstep.judgement.comparison import aa_offset
from slowstep.judgement.nodes import NODE, against_first
from slowstep.judgement.observed_sizes import loaders_of_step
from slowstep.judgement.suspects import Suspect
from slowstep.judgement.verdict import Outcome, Verdict, span
from slowstep.judgement.verdicts_together import best_levels, best_together
from slowstep.report.chart import Text
from slowstep.settings.sections import TESTED
from slowstep.text.markdown import escape
from slowstep.text.numbers import asked, percent, percentage
from slowstep.text.phases import PHASE_NAMES
from slowstep.text.sentences import capitalised, sentence
from slowstep.wording.causes import Cause
from slowstep.wording.course import course, epochs_end, seen_at_several_times, seen_once
from slowstep.wording.first_reads import waits_for_disk
from slowstep.wording.lost import consists, takes
from slowstep.wording.slow_nodes import slower_nodes
from slowstep.wording.still_open import in_noise, says_nothing, still_open
from slowstep.wording.words import (
    changes_left_out,
    counted,
    hours,
    measured_again,
    money,
    not_measured_again,
    not_shown_beside,
    proviso,
    rate,
    share,
    strength,
)

ADVICE = {
    Meaning.EXACT: "Training itself stays the same, so this can be set as it is.",
    Meaning.NUMERICS: "It changes rounding, so compare the loss before relying on it.",
    Meaning.SEMANTICS: "It is not the same training any more, so it is no plain speed-up",
    Meaning.DIAGNOSTIC: "It shows a limit and is nothing to train with.",
}


def conclusion(subject: str, verdicts: Sequence[Verdict], suspects: Sequence[Suspect] = ()) -> Text:
    """Write what a notebook's verdicts say about `subject`.

    `suspects` are the phases in which the run loses time: where nothing helps that was tried, and the subject's phases
    are among them, the subject is not cleared. These are the phases that the tried changes act in, and those that the
    section of that title asks about. A node is no change to make, so nodes are told by themselves: which of
    them are slow.
    """
    nodes = [v for v in verdicts if v.factor == NODE and v.effect]
    of_nodes = slower_nodes(against_first(nodes))
    verdicts = [v for v in verdicts if v not in nodes]
    together = [v for v in verdicts if v.outcome is Outcome.SUPPORTED and not v.alone]
    own = [v for v in verdicts if not v.conditional]
    supported = best_levels(own) + sorted(together, key=lambda v: -v.gain)[:1]
    supported.sort(key=lambda v: v.meaning is Meaning.DIAGNOSTIC)  # a limit is nothing to train with
    beside = best_levels([v for v in verdicts if v.conditional])
    alone = nodes and not verdicts
    parts = [f"**{subject}:** {of_nodes}"] if alone else [_headline(subject, supported, verdicts, suspects)]
    parts += [_advice(v) for v in supported] + [_condition(v) for v in beside]
    groups = _groups(verdicts, {v.factor for v in supported})
    parts += [_listed(what, some, why) for what, some, why in groups if some]
    if nodes and not alone:
        parts.append(of_nodes)
    return Text("\n\n".join(parts))


def _groups(
    verdicts: Sequence[Verdict], helped: Collection[str]
) -> list[tuple[str, list[Verdict], Callable[[Verdict], str]]]:
    """Return the verdicts that do not support a change, in groups: title, verdicts, and how each tells its reason.

    `helped` are the factors of which another level was supported.
    """

    def of(outcome: Outcome) -> list[Verdict]:
        return [v for v in verdicts if v.outcome is outcome]

    small = [v for v in of(Outcome.REFUTED) if v.effect and v.effect.low > 1]
    others = [v for v in of(Outcome.REFUTED) if v not in small]
    return [
        ("A gain, but below the minimum effect", small, _refutation),
        ("Not the cause", [v for v in others if v.factor not in helped], _refutation),
        ("Below the minimum effect", [v for v in others if v.factor in helped], _refutation),
        ("Undecided", [v for v in of(Outcome.INCONCLUSIVE) if not v.untried], _undecided),
        ("Not tried", [v for v in verdicts if v.untried], _reason),
        ("Not testable here", of(Outcome.NOT_TESTABLE), _reason),
    ]


def baseline_conclusion(
    baseline: Baseline, verdicts: Sequence[Verdict], minimum_effect: float, warned: Sequence[str] = ()
) -> Text:
    """Write where the time goes, how small an effect this machine can show, and what is worth testing.

    `warned` holds what the program itself printed about slow paths.
    """
    paragraphs = (
        _failing(baseline),
        _where_time_goes(baseline, minimum_effect),
        _share_of_peak(baseline),
        _job(baseline),
        _as_it_goes_on(baseline),
        escape(epochs_end(baseline.epochs_end)),
        f"**{escape(waits)}**" if (waits := waits_for_disk(baseline.facts.first_reads)) else "",
        _rests_on(baseline),
        "The program itself says: " + "; ".join(f"“{escape(line)}”" for line in warned) + "." if warned else "",
        _worth_a_trial(verdicts, minimum_effect),
    )
    return Text("\n\n".join(filter(None, paragraphs)))


def _failing(baseline: Baseline) -> str:
    """Write how the run failed in the end; empty if it did not."""
    return f"**{escape(sentence(baseline.fails))}** What follows is of the steps before." if baseline.fails else ""


def _where_time_goes(baseline: Baseline, minimum_effect: float) -> str:
    """Write which phases take most of a step, how fast the run is, and how far it differs from itself."""
    facts = baseline.facts
    largest = sorted(((p, s.mean) for p, s in facts.shares.items()), key=lambda x: -x[1])[:3]
    where = ", ".join(f"{PHASE_NAMES[phase]} {share(s)}" for phase, s in largest)
    several = loaders_of_step(facts.observed)
    of = f" (those of one of the {several} loaders that a step draws from)" if several > 1 else ""
    speed = f"{rate(facts.throughput.samples_per_second)} samples/s{of}"
    apart = _against_itself(baseline, minimum_effect)
    return f"**The step's time goes mostly to {where}.** The run trains {speed}. {apart}"


def _share_of_peak(baseline: Baseline) -> str:
    """Write how much of the device's peak the run uses; empty if that is not known."""
    if baseline.mfu is None or baseline.peak is None:
        return ""
    return (
        f"It uses {share(baseline.mfu)} of what the device can compute ({escape(baseline.peak.source)}); "
        f"{share(1 - (baseline.facts.throughput.useful_share or 1.0))} of the computed positions are padding."
    )


def _job(baseline: Baseline) -> str:
    """Write what the real job takes and costs; empty if that is not known."""
    job = baseline.projection
    if not job:
        return ""
    costs = f" and costs {cost}" if (cost := escape(money(job))) else ""
    assumed = f" Here {escape(job.assumed)}." if job.assumed else ""
    return f"The real job takes {hours(job)}{costs}. {escape(counted(job))}{assumed}{proviso(baseline.facts)}"


def _as_it_goes_on(baseline: Baseline) -> str:
    """Write what becomes of the steps as training goes on, what was seen at one time alone by itself."""
    known, unsure = seen_at_several_times(baseline.courses), seen_once(baseline.courses)
    told = f"**{escape(course(known))}** The whole job is not projected from them." if known else ""
    return "\n\n".join(filter(None, (told, escape(course(unsure)))))


def _rests_on(baseline: Baseline) -> str:
    """Write what the shares rest on, and what could not be observed or profiled."""
    facts = baseline.facts
    text = f"These shares, and the bounds made of them, were seen on {facts.evidence}."
    if baseline.unobserved:
        text += f" The baseline could not be observed by itself for longer ({escape(baseline.unobserved)})."
    if baseline.unprofiled:
        missing = "no operator is named" if facts.places else "no operator and no line is named"
        text += f" It could not be profiled ({escape(baseline.unprofiled)}): {missing}."
    return text


def _worth_a_trial(verdicts: Sequence[Verdict], minimum_effect: float) -> str:
    """Write which hypotheses no bound refutes, the largest bound first; empty if there are none."""
    worth = [v for v in verdicts if v.bound and v.bound.ratio - 1 >= max(minimum_effect, v.least)]
    unknown = [v for v in verdicts if v not in worth and v.outcome is Outcome.INCONCLUSIVE]
    worth.sort(key=lambda v: -v.bound.ratio)
    names = [f"{escape(v.name)} (at most {percent(v.bound.ratio)})" for v in worth]
    names += [escape(v.name) for v in unknown]
    return f"Worth a trial, most promising first: {', '.join(names)}." if names else ""


def _against_itself(baseline: Baseline, minimum_effect: float) -> str:
    """Write how far the run differs from itself, and how small an effect could be told from that."""
    seen, read = baseline.noise, baseline.reading.effect
    if seen is None:
        pairs = "1 pair" if read.n == 1 else f"{read.n} pairs"
        return f"How far it differs from itself can't be told from {pairs}."
    told = "more pairs will be needed for anything small" if seen - 1 > minimum_effect else "so such gains can be told"
    if apart := aa_offset(baseline.record):
        by = percentage(math.expm1(apart))
        told = f"its launches differ by {by}, more than intervals allow for, and no gain of that size is believed"
    return (
        f"Measured against itself it differs by {span(read)}: these {read.n} pairs could tell an effect of "
        f"{percent(seen)} or more from chance, and the minimum effect asked for is {asked(minimum_effect)}; "
        f"{told}."
    )


def final_conclusion(
    chosen: Verdict | None,
    tested: Sequence[Verdict],
    left: Sequence[str],
    causes: Sequence[Cause],
    unshown: Sequence[str] = (),
) -> Text:
    """Write what to change in the end, and what no change accounts for.

    `chosen` is the final configuration, `tested` is all that was tested, and `left` names parts that were left out.
    Parts of it that were not shown to bring anything beside the rest are `unshown`.
    """
    adopted = chosen is not None and chosen.outcome is Outcome.SUPPORTED
    open_ones = [f"**Still open:** {escape(one)}" for one in still_open(causes, adopted)]
    return Text("\n\n".join([_decision(chosen, tested, left, unshown), *open_ones]))


def _decision(chosen: Verdict | None, tested: Sequence[Verdict], left: Sequence[str], unshown: Sequence[str]) -> str:
    if chosen is None:
        return _no_change(tested)
    if chosen.outcome is not Outcome.SUPPORTED:
        return f"**Change nothing yet.** {unconfirmed(chosen)}"
    why = "" if chosen.alone else ", since gains don't add"
    dropped = f" {sentence(changes_left_out([*map(escape, left)]))}" if left else ""
    apart = f" {not_shown_beside([*map(escape, unshown)])}" if unshown else ""
    return (
        f"**{escape(chosen.order)}: {span(chosen.effect)} throughput against the baseline**, {measured_again(chosen)} "
        f"({strength(chosen)}){why}.{apart} {ADVICE[chosen.meaning].rstrip('.')}.{dropped} "
        "The files in final/ hold this configuration."
    )


def unconfirmed(chosen: Verdict) -> str:
    """Write why a configuration that was chosen is not confirmed."""
    whole, why = escape(chosen.shown), escape(sentence(chosen.reason))
    if chosen.untried:
        return f"{whole}: {not_measured_again('once more' if chosen.alone else 'together')}."
    if chosen.effect is None:
        return f"{whole}: could not be {measured_again(chosen)}. {why}"
    return f"{whole}: {measured_again(chosen)}, and not confirmed. {why}"


def _no_change(tested: Sequence[Verdict]) -> str:
    """Write why nothing is changed: nothing pays, what pays may not be changed, or it is not known yet."""
    failed = [escape(v.title_in_full) for v in tested if v.run_failed]
    undecided = [escape(v.title_in_full) for v in tested if in_noise(v)]
    unsaid = [v for v in tested if says_nothing(v)]
    untried = [escape(v.title_in_full) for v in tested if v.untried]
    paying = [v for v in best_levels(tested) if v.meaning is not Meaning.DIAGNOSTIC] + best_together(tested)
    refused = [escape(v.title_in_full) for v in paying if not v.conditional]
    beside = [escape(v.title_in_full) for v in paying if v.conditional]
    yet = " yet" * bool(failed or undecided or unsaid or untried)
    text = f"**Change nothing{yet}.** Nothing that may be acted on was shown to bring anything."
    if refused:
        text += f" Supported, but not allowed by the parameter file or not paying in this job: {', '.join(refused)}."
    if beside:
        text += f" Supported beside settings that this run lacks, and not with these against it: {', '.join(beside)}."
    if failed:
        text += f" The run itself failed beside these, which says nothing of them: {', '.join(failed)}."
    if undecided:
        text += f" This machine's noise leaves undecided: {', '.join(undecided)}."
    if unsaid:
        text += f" {_listed('These comparisons say nothing of their change', unsaid, _reason)}"
    if untried:
        text += f" For these no time was left: {', '.join(untried)}."
    return text


def _headline(
    subject: str, supported: Sequence[Verdict], verdicts: Sequence[Verdict], suspects: Sequence[Suspect]
) -> str:
    if supported:
        first = supported[0]
        if first.meaning is Meaning.DIAGNOSTIC:
            return (
                f"**{subject}: the most that can be had from {limited_by(first.factor)} is {span(first.effect)}**, by "
                f"{escape(first.shown)} ({strength(first)}). No change was shown to bring a part of that."
            )
        return f"**{subject}: {escape(first.shown)} brings {span(first.effect)} throughput** ({strength(first)})."
    if not verdicts:
        return f"**{subject}: nothing was tested.** The parameter file lists no levels for it."
    beside = any(v.outcome is Outcome.SUPPORTED for v in verdicts)
    shown = "a gain was shown only beside what this run lacks" if beside else "no gain was shown"
    asked = {phase for section in TESTED if section.title == subject for phase in section.asks_about}
    lost = [s for s in suspects if _is_asked(s, asked) or any(_acts_in(v, s.phase) for v in verdicts)]
    for is_open, why in OPEN:
        count = sum(map(is_open, verdicts))
        if count:
            part = "part" if count < len(verdicts) else "all"
            losses = (f" {escape(sentence(f'{takes(s)}; {s.why}'))} {escape(consists(s))}".rstrip() for s in lost)
            return f"**{subject}: {shown}**, and {why.format(part)}.{''.join(losses)}"
    if beside:
        return f"**{subject}: {shown}.**"
    nothing = "Nothing tested brings as much as was asked for."
    if lost:
        losses = escape(capitalised("; ".join(map(takes, lost))))
        return f"**{subject}: nothing that was tried here helps.** {nothing} {losses} all the same."
    limits = [v for v in verdicts if v.meaning is Meaning.DIAGNOSTIC]
    if limits:  # all that could be had is less than was asked for
        return f"**{subject}: not what limits this run.** {nothing}"
    return f"**{subject}: no gain was shown.** {nothing} What was not tested may."


def _is_asked(suspect: Suspect, asked: Collection[str]) -> bool:
    """Return whether a question about the phases `asked` is about lost time; of communicating ranks one may be slow."""
    return suspect.phase in asked or (suspect.rank is not None and "communication" in asked)


def _acts_in(v: Verdict, phase: str) -> bool:
    acts = touched_by(v.factor)
    return phase in acts and acts != ALL_PHASES


OPEN = (
    (lambda v: v.run_failed, "the run itself failed while {} of it was tested"),
    (in_noise, "this machine's noise leaves {} of it open"),
    (says_nothing, "{} of it stays open, since the pairs say nothing of the change"),
    (lambda v: v.untried, "no time was left to test {} of it"),
    (lambda v: v.outcome is Outcome.NOT_TESTABLE, "{} of it could not be tested here"),
)
"""The states of a verdict that leave its question open, with what is said of them, the one to be told first first."""


def _advice(verdict: Verdict) -> str:
    change = ADVICE[verdict.meaning]
    if verdict.meaning is Meaning.SEMANTICS:
        change = f"{change}: {verdict.changes}."
    if verdict.doubt:  # it says more than that a change can be set as it is, and no less than that training changes
        change = f"{sentence(verdict.doubt)} {change if verdict.meaning is Meaning.SEMANTICS else ''}".rstrip()
    return f"**{escape(verdict.shown)}** ({span(verdict.effect)}): {change}"


def _condition(verdict: Verdict) -> str:
    return (
        f"**{escape(verdict.title_in_full)}** ({span(verdict.effect)}): this run lacks what both arms were given, so "
        "it says nothing of the run as it is; 90_final_config measures the two together, where that is allowed."
    )


def _refutation(verdict: Verdict) -> str:
    if verdict.effect is None:
        return (
            f"at most {percent(verdict.bound.ratio)}, known without a trial"
            if verdict.bound
            else "known without a trial"
        )
    return f"{span(verdict.effect)}"


def _undecided(verdict: Verdict) -> str:
    """Write the effect that noise leaves undecided. Of any other comparison write why it decides nothing."""
    if in_noise(verdict):
        return span(verdict.effect)
    return f"{span(verdict.effect)}; {_reason(verdict)}" if verdict.effect else _reason(verdict)


def _reason(verdict: Verdict) -> str:
    return escape(verdict.reason)


def _listed(what: str, verdicts: Sequence[Verdict], told: Callable[[Verdict], str]) -> str:
    """Write changes in one sentence, each with what is `told` of it; those of which the same is told stand together."""
    alike: dict[str, list[str]] = {}
    for v in verdicts:
        alike.setdefault(told(v), []).append(escape(v.title_in_full))
    groups = (f"{', '.join(names)} ({said})" for said, names in alike.items())
    return f"{what}: {'; '.join(groups)}."
