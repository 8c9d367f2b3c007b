"""The file decision.md: what was decided and why, as an architecture decision record to keep beside the code."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from slowstep.factors import Meaning
from slowstep.final.alternatives import option_table, options
from slowstep.final.choice import Choice, causes_of
from slowstep.final.script import why_not
from slowstep.investigation.lab import Lab
from slowstep.judgement.projection import Projection
from slowstep.judgement.verdict import Outcome
from slowstep.judgement.verdicts_together import best_levels, best_together
from slowstep.report.chart import Table
from slowstep.report.tables import hypotheses
from slowstep.text.markdown import code, escape
from slowstep.wording.causes import Cause
from slowstep.wording.course import course
from slowstep.wording.remaining import remains
from slowstep.wording.words import (
    change_of_job,
    effect,
    hours,
    left_out,
    loss_change,
    measured_again,
    money,
    proviso,
)


def decision(lab: Lab, choice: Choice) -> str:
    """Return the record as Markdown: status, context, hypotheses, scored options, decision, consequences, doubts."""
    today = datetime.now(UTC).date().isoformat()
    parts = [f"# Training configuration of {escape(lab.settings.name)}"]
    parts += [f"Status: {'proposed' if choice.adopted else 'no change proposed'}, {today}"]
    parts += ["## Context", _context(lab)]
    parts += ["## Hypotheses", hypotheses(choice.verdicts).markdown]
    parts += ["## Options", _options(option_table(options(lab, choice)))]
    if choice.head_to_heads:
        parts += ["Finalists against each other:", hypotheses([m.verdict for m in choice.head_to_heads]).markdown]
    lost = causes_of(lab, choice)
    parts += ["## Decision", _decided(choice, lost)]
    parts += ["## Consequences", _consequences(choice)]
    parts += ["## What would change this decision", _doubts(choice, lost)]
    return "\n\n".join(parts) + "\n"


def _context(lab: Lab) -> str:
    before, facts = lab.baseline.projection, lab.baseline.facts
    text = f"Measured on {escape(lab.machine)}, at {facts.throughput.samples_per_second:.2f} samples/s."
    job = f" The real job takes {_hours(before)} with the configuration as it was.{proviso(facts)}" if before else ""
    changes = f" {escape(course(lab.baseline.courses))}" if lab.baseline.courses else ""
    return text + job + changes


def _options(table: Table) -> str:
    how = (
        "Up to five points each: for the share of the time, and so of the cost, that is saved; for low risk, the share "
        "of the memory that stays free; and for little change (exact 5, numerics 3, semantics 1). The points describe; "
        "what is decided is the fastest that the parameter file allows."
    )
    return f"{table.markdown}\n\n{how}"


def _decided(choice: Choice, lost: Sequence[Cause]) -> str:
    verdict = choice.verdict
    if choice.adopted:
        lines = [
            f"{escape(verdict.order)}: {effect(verdict.effect)} throughput, {measured_again(verdict)}.",
            "",
        ]
        lines += [f"- {code(f'{key}: {value}')}" for key, value in verdict.overrides.items()]
        lines += [f"- changes in meaning: {verdict.meaning}; loss over the same first samples: "]
        lines[-1] += loss_change(verdict.loss_change)
    else:
        said = f"{verdict.name}: {verdict.reason}" if verdict else ""
        why = escape(said) or "nothing that may be acted on was shown to pay."
        in_code = next((c.headline for c in lost if c.headline), "")
        lines = [f"Change {'no setting' if in_code else 'nothing'}: {why} {escape(in_code)}".rstrip()]
    if choice.left_out:
        lines += [f"- {left_out([*map(escape, choice.left_out)])}"]
    kept = {v.factor for v in choice.candidates}
    refused = [v for v in best_levels(choice.verdicts) if v.factor not in kept and v.meaning is not Meaning.DIAGNOSTIC]
    allowed = [m.verdict.name for m in choice.allowed]
    refused += [v for v in best_together(choice.verdicts) if v.name not in allowed]
    reasons = (
        (
            "not allowed by the parameter file (`allow`) or not paying in this job",
            [v for v in refused if not v.held_constant],
        ),
        (
            "only beside what this run lacks; not allowed, or not shown to pay with it",
            [v for v in refused if v.held_constant],
        ),
    )
    for why, those in reasons:
        names = ", ".join(f"{escape(v.title_in_full)} ({v.meaning}, {effect(v.effect)})" for v in those)
        lines += [f"- supported, but {why}: {names}"] * bool(those)
    return "\n".join(lines)


def _consequences(choice: Choice) -> str:
    absent = why_not(choice.settings) if choice.settings.command is None else ""
    lost = [f"What it still loses: {escape(one)}" for one in remains(choice.remaining)]
    return "\n\n".join([_job(choice), *lost]) + f"\n\nThere is no train.py beside this file: {absent}." * bool(absent)


def _job(choice: Choice) -> str:
    if not choice.after or not choice.before:
        unknown = "The whole job is not projected: its size is not given, or its steps keep no one pace."
        return unknown if choice.adopted else "The real job takes as long as before."
    return f"The real job then {escape(change_of_job(choice.before, choice.after))}."


def _doubts(choice: Choice, lost: Sequence[Cause]) -> str:
    lines = ["Another machine, model size, sequence length or batch size; another version of the libraries."]
    lines += [f"Still open: {escape(c.still_open)}" for c in lost if c.still_open]
    open_ones = [escape(v.name) for v in choice.verdicts if v.outcome is Outcome.INCONCLUSIVE and not v.untried]
    untried = [escape(v.name) for v in choice.verdicts if v.untried]
    if open_ones:
        lines += [f"More pairs on a quieter machine could still decide: {', '.join(open_ones)}."]
    if untried:
        lines += [f"No time was left for: {', '.join(untried)}."]
    return "\n\n".join(lines)


def _hours(p: Projection) -> str:
    return ", ".join(filter(None, (hours(p), escape(money(p)))))
