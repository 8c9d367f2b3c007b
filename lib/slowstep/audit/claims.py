"""The judgement of a claim by its figures: at equal work, against bounds, controls, noise and other differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slowstep.audit.confounded import beside_the_factor, confounded
from slowstep.audit.differences import differences
from slowstep.audit.doubts import BATCH, MICRO, OTHER_TOKENS, UNKNOWN, doubt_of, questions_of
from slowstep.audit.equal_work import (
    FULL_LENGTH_ALIKE,
    OF_PRICE,
    disputed,
    equal_work,
    gains_without,
    read_by,
    read_from,
    work_done,
)
from slowstep.audit.figures import Figure, exact
from slowstep.audit.findings import (
    Finding,
    FindingKind,
    Judged,
    Judgement,
    claimed,
    contradicts,
    stated_speed_up,
    times,
)
from slowstep.audit.limits import between_steps, beyond_bound, controls, expectation
from slowstep.audit.noise import (
    SINGLE,
    allowed_by_rounding,
    interval_of_repeats,
    left_open_by_noise,
    noise_of_repeats,
    rests_on_single_runs,
)
from slowstep.audit.physics import Sizes
from slowstep.audit.relations import CONSEQUENCE, TITLES
from slowstep.audit.run import ReportedRun, batches
from slowstep.audit.sample_sizes import OTHER_SAMPLES
from slowstep.audit.time_to_result import whole_time
from slowstep.settings.reported import Claim

NO_TRAP = (UNKNOWN, BATCH, MICRO, OTHER_TOKENS, OTHER_SAMPLES)
"""Doubts under which nobody knows what counts equal work, so that no other unit is a trap."""

NEVER = "; these figures are expected and were never measured"


def judge(claim: Claim, runs: Sequence[ReportedRun], sizes: Sizes | None = None) -> Judged:
    """Judge a claim on two of the `runs`, its treatment and its baseline, at equal work where the figures allow it."""
    a, b = (next(r for r in runs if r.label == label) for label in (claim.baseline, claim.treatment))
    (gain, unit), stated = equal_work(a, b, claim.quantity), stated_speed_up(claim)
    whole = whole_time(claim, a, b, gain, stated)
    gain, unit = (whole.gain, whole.unit) if whole and whole.counts else (gain, unit)
    named = _with_factor(claim, a, b)
    doubt = whole.doubt if whole else doubt_of(claim, a, b, gain, unit)
    by_repeats = interval_of_repeats(a, b, gain) if gain else None
    findings = [
        *([] if whole or doubt.startswith(NO_TRAP) else _unit_trap(claim, a, b, gain, unit, stated)),
        *beyond_bound(named, a, b, stated, gain, sizes),
        *between_steps(named, a, b, gain, unit),
        *controls(named, a, b),
        *confounded(claim, a, b),
        *([] if doubt.startswith(MICRO) else _meaning(claim, a, b)),
        *(noise_of_repeats(claim, a, b, by_repeats) if by_repeats else allowed_by_rounding(claim, gain, stated)),
        *expectation(named, a, b, runs),
        *_by_epochs(claim, a, b, gain, unit),
    ]
    dispute = _dispute(claim, a, b, gain, stated) if gain and stated else ""
    left_open = dispute or (left_open_by_noise(gain, stated, by_repeats) if gain and stated else "")
    single = rests_on_single_runs(a, b, gain)
    gained = claim.factor and stated and stated.low >= 1
    left_open = left_open or (SINGLE if single and gained else "")  # a small loss says that it costs little
    contradicted = bool(gain and stated and not dispute and contradicts(gain, stated))
    _, otherwise = _opposed_by_epochs(a, b, gain, unit)
    contradicted = contradicted and (otherwise is None or contradicts(otherwise, stated))
    judgement, reason = _weigh(gain, unit or _no_speed(a, b), stated, findings, doubt, contradicted, left_open)
    if judgement is Judgement.HOLDS:
        reason += beside_the_factor(claim, a, b)
    if judgement is Judgement.HOLDS and whole:
        reason += f"; both come to {whole.result}{_at_equal_work(claim, a, b)}"
    if judgement is Judgement.HOLDS and single:
        reason += f"; {SINGLE}"
    return Judged(
        claim=claim,
        judgement=judgement,
        reason=reason,
        gain=gain,
        unit=unit,
        findings=findings,
        questions=questions_of(claim, a, b, doubt),
        by_single_runs=single,
    )


def _at_equal_work(claim: Claim, a: ReportedRun, b: ReportedRun) -> str:
    """Return in words how fast a row is at equal work whose claim holds by the whole time; empty if that is as fast."""
    gain, unit = equal_work(a, b, claim.quantity)
    work = work_done(claim.quantity or "seconds", a, b)
    if gain is None or work is None or work[0].meets(exact(1)):
        return ""
    return f", with other work: {read_by(unit)} it is {times(gain.middle)} as {_good(unit)}"


def impossible(
    claim: Claim, a: ReportedRun, b: ReportedRun, runs: Sequence[ReportedRun], sizes: Sizes | None = None
) -> list[Finding]:
    """Find what two rows say that can't be, or that was measured otherwise, independently of any conclusion."""
    gain, _ = equal_work(a, b)
    found = [*beyond_bound(claim, a, b, gain, gain, sizes), *controls(claim, a, b)]
    return found + [f for f in expectation(claim, a, b, runs) if f.kind is FindingKind.MEASURED]


def _with_factor(claim: Claim, a: ReportedRun, b: ReportedRun) -> Claim:
    """Return the claim with its factor: if it names none, the only one in which its rows differ."""
    differ = differences(a.settings, b.settings)
    return replace(claim, factor=differ[0][0].name) if claim.factor is None and len(differ) == 1 else claim


def _unit_trap(
    claim: Claim, a: ReportedRun, b: ReportedRun, gain: Figure | None, unit: str, stated: Figure | None
) -> list[Finding]:
    """Find that a claim was read from a figure that counts other work, unless it says what equal work says."""
    if gain is not None and stated is not None and stated.meets(gain):
        return []
    read = read_from(claim.quantity, a, b) if claim.quantity else None
    if gain is None or read is None or read.meets(gain) or unit in (TITLES[claim.quantity], FULL_LENGTH_ALIKE):
        return []
    text = (
        f"read in {TITLES[claim.quantity]} '{b.label}' is {times(read.middle)} as {_good(unit)}; in {unit}, which "
        f"counts equal work, it is {times(gain.middle)}"
    )
    return [Finding(kind=FindingKind.UNIT, where=claim.text, text=text)]


def _good(unit: str) -> str:
    return "cheap" if unit.startswith(tuple(TITLES[q] for q in OF_PRICE)) else "fast"


def _dispute(claim: Claim, a: ReportedRun, b: ReportedRun, gain: Figure, stated: Figure) -> str:
    """Return a doubt if the gain depends on which of contradicting figures is wrong, and the judgement may, too."""
    gains = [gain, *gains_without(a, b, claim.quantity).values()]
    return "" if all(contradicts(each, stated) for each in gains) else disputed(a, b, gain, claim.quantity)


def _meaning(claim: Claim, a: ReportedRun, b: ReportedRun) -> list[Finding]:
    before, after = batches(a, b)
    if not before or not after or before.meets(after):
        return []
    text = f"a step trains on {after} samples in place of {before}: another optimisation, not only another speed"
    return [Finding(kind=FindingKind.MEANING, where=claim.text, text=text)]


def _by_epochs(claim: Claim, a: ReportedRun, b: ReportedRun, gain: Figure | None, unit: str) -> list[Finding]:
    """Find that samples a second say the opposite of epochs, which are the same data, or the other way round."""
    other, otherwise = _opposed_by_epochs(a, b, gain, unit)
    if otherwise is None:
        return []
    text = f"{read_by(other)} it is {times(otherwise.middle)} as fast, and an epoch is the same data"
    return [Finding(kind=FindingKind.UNLIKELY, where=claim.text, text=text)]


def _opposed_by_epochs(a: ReportedRun, b: ReportedRun, gain: Figure | None, unit: str) -> tuple[str, Figure | None]:
    """Return the unit, samples a second or epochs, that says the opposite of a gain, with what it says; else None."""
    speeds = {TITLES[q]: read_from(q, a, b) for q in ("samples_per_second", "seconds_per_epoch")}
    if (
        gain is None
        or None in speeds.values()
        or unit not in (*speeds, TITLES["tokens_per_second"])
        or a.packed != b.packed
    ):
        return "", None
    other = next(u for u in reversed(speeds) if u != unit)
    work = work_done("seconds_per_epoch", a, b) if "epoch" in other else None
    if (work and not work[0].meets(exact(1))) or not (gain.middle - 1) * (speeds[other].middle - 1) < 0:
        return "", None
    if min(abs(g.middle - 1) for g in (gain, speeds[other])) <= CONSEQUENCE or gain.meets(exact(1)):
        return "", None
    return other, speeds[other]


def _no_speed(a: ReportedRun, b: ReportedRun) -> str:
    """Return why nothing can be compared, in words."""
    for run in (a, b):
        if run.out_of_memory:
            return f"'{run.label}' ran out of memory, so it has no speed to compare"
    return "no speed at equal work follows from the figures"


def _weigh(
    gain: Figure | None,
    unit: str,
    stated: Figure | None,
    findings: Sequence[Finding],
    doubt: str,
    contradicted: bool,
    left_open: str,
) -> tuple[Judgement, str]:
    """Return the judgement and its reason. `unit` counts equal work, or says why nothing does."""
    kinds = {f.kind: f.text for f in reversed(findings)}
    unmeasured = NEVER if FindingKind.PROJECTED in kinds else ""
    if FindingKind.BOUND in kinds:
        return Judgement.CONTRADICTED, kinds[FindingKind.BOUND] + unmeasured
    if FindingKind.CONTROL in kinds:
        return Judgement.UNDECIDED, kinds[FindingKind.CONTROL] + unmeasured
    if gain is None or stated is None:
        return Judgement.UNDECIDED, unit if gain is None else "the claim gives no size"
    at = f"{read_by(unit)} it {'would be' if unmeasured else 'is'} {times(gain.middle)} as "
    at += _good(unit)
    if doubt:
        return Judgement.UNDECIDED, f"{at}; {doubt}"
    if contradicted:
        otherwise = f"; {kinds[FindingKind.MEASURED]}" if FindingKind.MEASURED in kinds else ""
        return Judgement.CONTRADICTED, f"{at}, and {claimed(stated)} was claimed{unmeasured}{otherwise}"
    return _not_contradicted(at, kinds, left_open)


def _not_contradicted(at: str, kinds: Mapping[FindingKind, str], left_open: str) -> tuple[Judgement, str]:
    """Return the judgement of a claim whose size agrees. It holds unless one of three things speaks against it.

    Something else could have made the gain, nothing was measured, or rounding leaves it open.
    """
    for kind in (FindingKind.MEASURED, FindingKind.PROJECTED):
        if kind in kinds and FindingKind.NOISE not in kinds:
            return Judgement.UNDECIDED, kinds[kind]
    for kind, word in ((FindingKind.NOISE, "and"), (FindingKind.CONFOUNDED, "but"), (FindingKind.UNLIKELY, "but")):
        if kind in kinds:
            return Judgement.UNDECIDED, f"{at}, {word} {kinds[kind]}"
    return (Judgement.UNDECIDED, f"{at}, but {left_open}") if left_open else (Judgement.HOLDS, at)
