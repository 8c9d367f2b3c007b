"""The decision as the index and the summaries tell it: what is adopted, what is not and why, what becomes of a step."""

from __future__ import annotations

from slowstep.factors import CATALOGUE, Meaning, label
from slowstep.final.choice import Choice, allowed_by
from slowstep.investigation.results import Decision, Measured, Refused
from slowstep.judgement.verdict import best_levels
from slowstep.records import PHASES, Block


def decision_of(choice: Choice) -> Decision:
    """Return the decision that a choice amounts to."""
    adopted = choice.chosen if choice.adopted else None
    picks = adopted.contrast.levels if adopted else ()
    factors, names = {f.name for f, _ in picks}, {label([pick]) for pick in picks}
    parts = sorted((m.verdict for m in choice.allowed if m.verdict.name in names), key=lambda v: -v.gain)
    rest = [v for v in best_levels(choice.verdicts) if v.factor not in factors and v.meaning is not Meaning.DIAGNOSTIC]
    tested = {m.verdict.name: m for m in choice.tested}
    before, after = _step(adopted) if adopted else ({}, {})
    return Decision(
        adopted=adopted.verdict if adopted else None,
        parts=parts,
        refused=[_refused(tested[v.name], choice) for v in rest],
        before=choice.before,
        after=choice.after,
        step_before=before,
        step_after=after,
    )


def _refused(m: Measured, choice: Choice) -> Refused:
    """Return why a supported change is not adopted, and what would let it in."""
    verdict, allow = m.verdict, choice.settings.allow
    if verdict.held_constant:
        return Refused(verdict=verdict, why=f"compared {verdict.condition.strip('()')}, which this run lacks")
    if not allowed_by(m, choice.settings):
        kind = verdict.meaning
        permitted = {Meaning.NUMERICS: allow.numerics, Meaning.SEMANTICS: allow.semantics}.get(kind, True)
        if not permitted:
            return Refused(
                verdict=verdict, why=f"it changes {verdict.changes}, which is not allowed", remedy=f"allow.{kind}: true"
            )
        kept = [n for n in allow.never if CATALOGUE[n].current(m.contrast.treatment.settings.run) != _now(n, m)]
        return Refused(verdict=verdict, why="allow.never keeps it as it is", remedy=f"allow.never without {kept[0]}")
    if verdict.name not in {one.verdict.name for one in choice.allowed}:
        return Refused(verdict=verdict, why="the job would not end sooner with it")
    return Refused(verdict=verdict, why="it was not shown to bring anything beside what is adopted")


def _now(factor: str, m: Measured) -> object:
    return CATALOGUE[factor].current(m.contrast.baseline.settings.run)


def _step(m: Measured) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds by phase of a step as the run was, and of the same samples with the change."""
    pairs = m.record.pairs if m.record else []
    if not pairs:
        return {}, {}
    baseline, treatment = ([getattr(p, side) for p in pairs] for side in ("baseline", "treatment"))
    samples = sum(b.work.samples for b in baseline) / sum(b.steps for b in baseline)
    return _by_phase(baseline, samples), _by_phase(treatment, samples)


def _by_phase(blocks: list[Block], samples: float) -> dict[str, float]:
    """Return the seconds by phase that `samples` samples take."""
    scale = samples / sum(b.work.samples for b in blocks)
    seconds = {phase: scale * sum(b.phases.get(phase, 0.0) for b in blocks) for phase in PHASES}
    return {phase: s for phase, s in seconds.items() if s}
