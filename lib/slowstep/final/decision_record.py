"""The file decision.md: what was decided and why, as an architecture decision record to keep beside the code."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from slowstep.final.alternatives import option_table, options
from slowstep.final.choice import Choice, causes_of
from slowstep.final.decision import decision_of
from slowstep.final.script import why_not
from slowstep.investigation.lab import Lab
from slowstep.judgement.projection import Projection
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.report.chart import Table
from slowstep.report.prose import unconfirmed
from slowstep.report.summary import refusal
from slowstep.report.tables import hypotheses
from slowstep.text.markdown import code, escape
from slowstep.text.sentences import capitalised
from slowstep.wording.causes import Cause
from slowstep.wording.course import course
from slowstep.wording.first_reads import waits_for_disk
from slowstep.wording.remaining import remains
from slowstep.wording.still_open import in_noise, more_lost, says_nothing, still_open
from slowstep.wording.words import (
    NOT_REACHED,
    change_of_job,
    changes_left_out,
    effect,
    hours,
    loss_change,
    measured_again,
    money,
    not_shown_beside,
    omits,
    proviso,
    rate,
)


def decision(lab: Lab, choice: Choice) -> str:
    """Return the record as Markdown: status, context, hypotheses, scored options, decision, consequences, doubts."""
    today = datetime.now(UTC).date().isoformat()
    parts = [f"# Training configuration of {escape(lab.settings.name)}"]
    parts += [f"Status: {'proposed' if choice.adopted else 'no change proposed'}, {today}"]
    parts += ["## Context", _context(lab)]
    parts += ["## Hypotheses", _tested(choice.verdicts)]
    parts += ["## Options", _options(option_table(options(lab, choice)))]
    if choice.head_to_heads:
        parts += ["Finalists against each other:", _tested([m.verdict for m in choice.head_to_heads])]
    lost = causes_of(lab, choice)
    parts += ["## Decision", _decided(choice, lost)]
    parts += ["## Consequences", _consequences(lab, choice)]
    parts += ["## What would change this decision", _doubts(choice, lost)]
    return "\n\n".join(parts) + "\n"


def _context(lab: Lab) -> str:
    before, facts = lab.baseline.projection, lab.baseline.facts
    text = f"Measured on {escape(lab.machine)}, at {rate(facts.throughput.samples_per_second)} samples/s."
    job = f" The real job takes {_hours(before)} with the configuration as it was.{proviso(facts)}" if before else ""
    job += f" {escape(omits(before))}" if before and before.left_out else ""
    changes = f" {escape(course(lab.baseline.courses))}" if lab.baseline.courses else ""
    waits = waits_for_disk(facts.first_reads)
    return text + job + changes + (f" {escape(waits)}" if waits else "")


def _tested(verdicts: Sequence[Verdict]) -> str:
    """Return the table of hypotheses, and below it those that no time was left for."""
    tried, untried = [v for v in verdicts if not v.untried], [v for v in verdicts if v.untried]
    names = ", ".join(escape(v.title_in_full) for v in untried)
    late = [f"{capitalised(NOT_REACHED)} in the time given: {names}."] * bool(untried)
    return "\n\n".join([hypotheses(tried).markdown] * bool(tried or not untried) + late)


def _options(table: Table) -> str:
    how = (
        "Up to five points each: for the share of the time, and so of the cost, that is saved; for low risk, the share "
        "of the memory that stays free; and for little change (exact 5, numerics 3, semantics 1). The points describe; "
        "what is adopted, if anything, is the combination that was expected or seen to be the fastest of those that "
        "the parameter file allows, and that fresh pairs confirmed. The figures by which single changes were picked "
        "tend to be high."
    )
    return f"{table.markdown}\n\n{how}"


def _decided(choice: Choice, lost: Sequence[Cause]) -> str:
    verdict = choice.verdict
    if choice.adopted:
        said = f"{escape(verdict.order)}: {effect(verdict.effect)} throughput, {measured_again(verdict)}."
        more = more_lost(lost, verdict.effect)
        more = f"{more} {not_shown_beside(choice.unshown)}".strip()
        values = verdict.lines or [f"{key}: {value}" for key, value in verdict.overrides.items()]
        lines = [f"- {code(one)}" for one in values]
        loss = loss_change(verdict.loss_change)
        lines += [f"- class: {verdict.meaning}; loss over the same first samples: {loss}"]
    else:
        more = next((c.headline for c in lost if c.headline), "")
        nothing = f"Change {'no setting' if more else 'nothing'}"
        yet = " yet" * any(m.verdict.outcome is Outcome.INCONCLUSIVE for m in choice.tested)
        said = f"{nothing}{yet}: nothing that may be acted on was shown to pay."
        said = f"{nothing} yet. {unconfirmed(verdict)}" if verdict else said
        lines = []
    paragraph = f"{said} {escape(more)}".rstrip()
    return "\n\n".join(filter(None, [paragraph, "\n".join([*lines, *_not_taken(choice)])]))


def _not_taken(choice: Choice) -> list[str]:
    """Return a line for each change that was shown to pay and is not taken, and one for what else is left out.

    The parts of a combination that was chosen, and is not confirmed, are named with it.
    """
    named = choice.chosen.verdict.overrides if choice.chosen else {}
    others = [one for one in decision_of(choice).refused if not one.verdict.overrides.items() <= named.items()]
    lines = [f"- supported, but not taken: {_in_brief(one.verdict)}: {refusal(one)}" for one in others]
    refused = [one.verdict.shown for one in others]
    rest = [one for one in choice.left_out if not any(one == name or one.startswith(f"{name} (") for name in refused)]
    names = [*map(escape, rest)]
    without = changes_left_out(names) if choice.adopted else f"not confirmed or not paying either: {', '.join(names)}"
    return [f"- {without}"] * bool(rest) + lines


def _in_brief(v: Verdict) -> str:
    return f"{escape(v.title_in_full)} ({v.meaning}, {effect(v.effect)})"


def _consequences(lab: Lab, choice: Choice) -> str:
    absent = why_not(choice.settings) if choice.settings.command is None else ""
    lost = [f"What is still lost: {escape(one)}" for one in remains(choice.remaining)]
    return "\n\n".join([_job(lab, choice), *lost]) + f"\n\nThere is no train.py beside this file: {absent}." * bool(
        absent
    )


def _job(lab: Lab, choice: Choice) -> str:
    if not choice.after or not choice.before:
        why = f": {escape(lab.baseline.unprojected)}" if lab.baseline.unprojected else ""
        return f"The whole job is not projected{why}." if choice.adopted else "The real job takes as long as before."
    return f"The real job then {escape(change_of_job(choice.before, choice.after))}."


def _doubts(choice: Choice, lost: Sequence[Cause]) -> str:
    lines = ["Another machine, model size, sequence length or batch size; another version of the libraries."]
    lines += [f"Still open: {escape(one)}" for one in still_open(lost, choice.adopted)]
    undecided = [escape(v.title_in_full) for v in choice.verdicts if in_noise(v)]
    otherwise = [v for v in choice.verdicts if v.run_failed or says_nothing(v)]
    untried = sum(v.untried for v in choice.verdicts)
    if undecided:
        lines += [f"More pairs on a quieter machine could still decide: {', '.join(undecided)}."]
    if otherwise:
        reasons = "; ".join(f"{escape(v.title_in_full)} ({escape(v.reason)})" for v in otherwise)
        lines += [f"Something other than noise leaves these open: {reasons}."]
    if untried:
        named = "the hypothesis that was" if untried == 1 else f"the {untried} hypotheses that were"
        lines += [f"More minutes (`budget.minutes`) could still decide {named} not reached."]
    return "\n\n".join(lines)


def _hours(p: Projection) -> str:
    return ", ".join(filter(None, (hours(p), escape(money(p)))))
