"""The decision as the index and the summaries tell it: what is adopted, what is not and why, what becomes of a step."""

from __future__ import annotations

from slowstep.factors import Meaning, label
from slowstep.factors.factor import show_all
from slowstep.final.choice import Choice
from slowstep.final.job import NOT_SOONER
from slowstep.final.own_words import in_own_words
from slowstep.investigation.permission import allowed_by, class_allowed, kept_factors
from slowstep.investigation.results import Decision, Measured, Refused
from slowstep.judgement.throughput import samples_per_step
from slowstep.judgement.verdict import Outcome, Verdict, span
from slowstep.judgement.verdicts_together import best_levels, best_together
from slowstep.records import PHASES, Block, Memory
from slowstep.wording.words import not_measured_again


def decision_of(choice: Choice) -> Decision:
    """Return the decision that a choice amounts to."""
    adopted = choice.chosen if choice.adopted else None
    picks = {label([pick]) for pick in adopted.contrast.levels} if adopted else set()
    parts = sorted((m.verdict for m in choice.allowed if label(m.contrast.levels) in picks), key=lambda v: -v.gain)
    before, after = _step(adopted) if adopted else ({}, {})
    return Decision(
        adopted=adopted.verdict if adopted else None,
        parts=parts,
        unshown=choice.unshown if adopted else [],
        refused=[_refused(m, choice) for m in _others(choice, adopted, picks, parts)],
        before=choice.before,
        after=choice.after,
        step_before=before,
        step_after=after,
        tokens=_tokens(adopted) if adopted else None,
        remaining=choice.remaining,
        memory_before=adopted.record.baseline.memory if adopted and adopted.record else Memory(),
        memory_after=adopted.record.treatment.memory if adopted and adopted.record else Memory(),
    )


def _others(choice: Choice, adopted: Measured | None, picks: set[str], parts: list[Verdict]) -> list[Measured]:
    """Return the supported changes that are not adopted: the best level of each factor, and the best of several.

    The largest gain comes first. Of a factor that has an adopted level, it is one that brings more than that.
    """
    tested = {m.verdict.name: m for m in choice.tested}
    taken = adopted.verdict.overrides if adopted else {}
    gains = {v.factor: v.gain for v in parts}
    open_ones = [
        v
        for v in choice.verdicts
        if v.name not in picks and v.meaning is not Meaning.DIAGNOSTIC and not v.overrides.items() <= taken.items()
    ]
    single = [v for v in best_levels(open_ones) if v.gain > gains.get(v.factor, 0.0)]
    together = [v for v in best_together(choice.verdicts) if v in open_ones]
    return [tested[v.name] for v in sorted([*single, *together], key=lambda v: -v.gain)]


def _refused(m: Measured, choice: Choice) -> Refused:
    """Return why a supported change is not adopted, and what would let it in."""
    verdict, allow = m.verdict, choice.settings.allow
    if allowed_by(m, choice.settings):
        tried = {label(one.contrast.levels) for one in choice.allowed}
        if label(m.contrast.levels) in tried:
            return Refused(verdict=verdict, why=_measured_again(m, choice))
        if verdict.held_constant:
            held = show_all(verdict.held_constant)
            return Refused(verdict=verdict, why=f"it was compared with {held} in both arms, which this run lacks")
        return Refused(verdict=verdict, why=NOT_SOONER)
    permitted, kept = class_allowed(m, choice.settings), kept_factors(m, choice.settings)
    why = [f"it changes training ({verdict.changes}), which the parameter file does not allow"] * (not permitted)
    why += [f"the parameter file keeps {name} as it is" for name in kept]
    classes = [name for name in ("numerics", "semantics") if getattr(allow, name) or name == str(verdict.meaning)]
    lines = [f"{name}: true" for name in classes]  # the whole section, as it stands in the place of the old one
    never = [name for name in allow.never if name not in kept]
    lines += [f"never: [{', '.join(never)}]"] * bool(kept or never)
    return Refused(verdict=verdict, why=", and ".join(why), remedy=f"allow: {{{', '.join(lines)}}}")


def _measured_again(m: Measured, choice: Choice) -> str:
    """Return what fresh pairs said of a change that could have been adopted, with what else was measured in them."""
    wanted = {label([pick]) for pick in m.contrast.levels}
    again = [one for one in choice.confirmed if wanted <= {label([pick]) for pick in one.contrast.levels}]
    failed = [one for one in again if one.verdict.outcome is not Outcome.SUPPORTED]
    if again and not (failed or choice.adopted):
        return NOT_SOONER
    if not (again or choice.adopted):
        return "it was not measured once more in fresh pairs"
    if wanted & {*choice.late}:
        return f"beside what is adopted, {NOT_SOONER}"
    if not failed or (choice.adopted and len(failed) < len(again)):
        return "it was not shown to bring anything beside what is adopted"
    found = min(failed, key=lambda one: len(one.contrast.levels))
    picks = [label([pick]) for pick in found.contrast.levels]
    others = [in_own_words(pick, choice.allowed) for pick in picks if pick not in wanted]
    how = f"together with {' and '.join(others)}" if others else "once more"
    if found.verdict.untried:
        return not_measured_again(how)
    if found.verdict.effect is None:
        return f"it could not be measured {how} in fresh pairs: {found.verdict.reason}"
    said = f"{span(found.verdict.effect)}, {found.verdict.reason}"
    return f"measured {how} in fresh pairs, it was not confirmed: {said}"


def _step(m: Measured) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds by phase of a step as the run was, and of the same samples with the change."""
    pairs = m.record.pairs if m.record else []
    if not pairs:
        return {}, {}
    baseline, treatment = ([getattr(p, side) for p in pairs] for side in ("baseline", "treatment"))
    samples = samples_per_step(baseline)
    return _by_phase(baseline, samples), _by_phase(treatment, samples)


def _tokens(m: Measured) -> float | None:
    """Return the useful tokens a sample with the change, over those without; None where none are counted."""
    pairs = m.record.pairs if m.record else []
    each = []
    for side in ("treatment", "baseline"):
        works = [getattr(pair, side).work for pair in pairs]
        if not works or any(work.useful_tokens is None for work in works):
            return None
        each.append(sum(work.useful_tokens for work in works) / sum(work.samples for work in works))
    return each[0] / each[1] if each[1] else None


def _by_phase(blocks: list[Block], samples: float) -> dict[str, float]:
    """Return the seconds by phase that `samples` samples take."""
    scale = samples / sum(b.work.samples for b in blocks)
    seconds = {phase: scale * sum(b.phases.get(phase, 0.0) for b in blocks) for phase in PHASES}
    return {phase: s for phase, s in seconds.items() if s}
