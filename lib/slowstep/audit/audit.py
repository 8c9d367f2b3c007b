"""All checks of the `reported` section of a parameter file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from slowstep.audit import arithmetic, claims, physics
from slowstep.audit.device_words import uncounted_devices
from slowstep.audit.differences import differences
from slowstep.audit.equal_work import padding_differs, same_batch, tokens_disagree, with_speed
from slowstep.audit.findings import Audit, Finding, FindingKind, Judged, Judgement, contradicts, stated_speed_up
from slowstep.audit.odd_sizes import odd_sizes, unlike_products, unlike_sizes
from slowstep.audit.outliers import SLIPS, unlike_neighbours
from slowstep.audit.physics import Sizes
from slowstep.audit.questions import questions
from slowstep.audit.read import rows
from slowstep.audit.relations import TITLES
from slowstep.audit.rows_as_runs import as_runs
from slowstep.audit.run import ReportedRun, same_devices, unknown_differences
from slowstep.audit.sample_sizes import other_samples
from slowstep.audit.stated_ratios import in_other_units, stated_ratios, unchecked_ratios
from slowstep.audit.utilisation import (
    against_throughput,
    beyond_peak,
    impossible_utilisation,
    recomputed_flops,
    unlike_flops,
    unlike_peaks,
    unlike_speeds,
)
from slowstep.settings import Settings
from slowstep.settings.reported import Claim, Reported


def audit(settings: Settings, sizes: Sizes | None = None) -> Audit:
    """Return what the figures say by themselves; SettingsError if they can't be read without a guess.

    With the `sizes` of the model they are also compared with what it needs and what the device can do. Empty sizes, {},
    mean that they were looked for and not found.
    """
    reported = settings.reported or Reported()
    found = read_runs(settings)
    findings = [f for run in found for f in arithmetic.of_run(run)]
    findings += [f for s in reported.sums for f in arithmetic.of_sum(s)]
    findings += [f for p in reported.percentages for f in arithmetic.of_percentage(p, found)]
    against_physics = [f for run in found for f in _against_physics(run, found, sizes, reported.device)]
    impossible = {f.where for f in against_physics}
    possible = [run for run in found if run.label not in impossible]
    odd = unlike_neighbours(found)
    findings += (
        stated_ratios(found)
        + in_other_units(found)
        + odd_sizes(found)
        + unlike_peaks(found, reported.device)
        + against_physics
        + odd
    )
    findings += _rankings(possible) + _out_of_memory(found)
    findings += [f for pair in _unclaimed(possible, reported.claims) for f in claims.impossible(*pair, possible, sizes)]
    judged = [_unless_confused(claims.judge(c, found, sizes), odd) for c in reported.claims]
    return Audit(
        runs=found,
        claims=[_on_what_can_be(c, impossible) for c in _shaken(judged)],
        findings=findings,
        impossible=impossible,
        questions=[
            *questions(settings, found),
            *unchecked_ratios(found),
            *unlike_sizes(found),
            *unlike_speeds(possible),
            *unlike_flops(possible),
            *unlike_products(found),
            *recomputed_flops(found, reported.device),
            *physics.batches_that_hold(found),
            *physics.of_all_devices(found, reported.device),
            *physics.unknown(sizes),
            *physics.lengths(found, sizes, reported.device),
        ],
    )


def read_runs(settings: Settings) -> list[ReportedRun]:
    """Return the runs of a report; SettingsError with everything that can't be read, or only by a guess."""
    return as_runs(settings, rows(settings.reported or Reported()))


def _against_physics(
    run: ReportedRun, runs: Sequence[ReportedRun], sizes: Sizes | None, device: str | None
) -> list[Finding]:
    return [
        *physics.beyond_the_device(run, sizes, device),
        *physics.beyond_the_batch(run, runs),
        *impossible_utilisation(run),
        *beyond_peak(run, device),
        *against_throughput(run, sizes, device),
    ]


def _on_what_can_be(judged: Judged, impossible: Collection[str]) -> Judged:
    """Make a claim undecided if it holds only by the figures of an impossible row."""
    labels = [label for label in (judged.claim.baseline, judged.claim.treatment) if label in impossible]
    if judged.judgement is not Judgement.HOLDS or not labels:
        return judged
    reason = f"{judged.reason}, but the figures of '{labels[0]}' can't be true"
    return replace(judged, judgement=Judgement.UNDECIDED, reason=reason)


def _unless_confused(judged: Judged, odd: Sequence[Finding]) -> Judged:
    """Make a contradicted claim undecided if it is off by as much as one of its rows is unlike its neighbours."""
    stated, gain = stated_speed_up(judged.claim), judged.gain
    found = next((f for f in odd if f.where in (judged.claim.baseline, judged.claim.treatment)), None)
    if judged.judgement is not Judgement.CONTRADICTED or not (stated and gain and found):
        return judged
    if all(contradicts(gain * by, stated) for size in SLIPS for by in (size, 1 / size)):
        return judged
    return replace(judged, judgement=Judgement.UNDECIDED, reason=f"{judged.reason}, but {found.text}")


def _shaken(judged: Sequence[Judged]) -> list[Judged]:
    """Make claims undecided whose baseline was measured under other conditions, as the control of another claim shows.

    Claims that their own figures contradict stay contradicted.
    """
    witnesses = {c.claim.baseline: c for c in judged if any(f.kind is FindingKind.CONTROL for f in c.findings)}
    found = []
    for c in judged:
        witness = witnesses.get(c.claim.baseline)
        if witness is None or witness is c:
            found.append(c)
            continue
        holds = c.judgement is Judgement.HOLDS
        reason = (
            f"{c.reason}{', but' if holds else '; besides,'} '{witness.claim.treatment}' shows that "
            f"'{c.claim.baseline}' and the others were measured under different conditions"
        )
        found.append(replace(c, judgement=Judgement.UNDECIDED if holds else c.judgement, reason=reason))
    return found


def _unclaimed(
    found: Sequence[ReportedRun], claimed: Sequence[Claim]
) -> Iterator[tuple[Claim, ReportedRun, ReportedRun]]:
    """Yield pairs of rows that differ in one factor and that no claim is about, with a claim to check them by.

    Each measured row is compared with the first one, and expected rows with each other. Rows that differ in a column
    that was not read, such as one of models, are left out: nobody says that the factor made their difference.
    """
    measured, expected = [r for r in found if r.measured], [r for r in found if r.projected]
    known = {frozenset((c.baseline, c.treatment)) for c in claimed}
    for first, run in (*((measured[0], r) for r in measured[1:]), *combinations(expected, 2)):
        differ = differences(first.settings, run.settings) if same_devices(first, run) else []
        unclaimed = frozenset((first.label, run.label)) not in known
        if len(differ) == 1 and unclaimed and not unknown_differences(first, run, differ[0][0].name):
            text = f"{run.label}, beside {first.label}"
            yield Claim(text=text, baseline=first.label, treatment=run.label, factor=differ[0][0].name), first, run


def _out_of_memory(found: Sequence[ReportedRun]) -> list[Finding]:
    """Return a note on each run that did not fit into memory, which is a result, too."""
    text = "it ran out of memory, which shows that it does not fit and says nothing about its speed"
    return [Finding(kind=FindingKind.MEMORY, where=r.label, text=text) for r in found if r.out_of_memory]


def _count_other_tokens(a: ReportedRun, b: ReportedRun) -> bool:
    """Return whether the tokens of two rows may be other work, as only those of one may count padding."""
    return padding_differs(a, b) or tokens_disagree(a, b)


def _of_all_devices(unit: str, measured: Sequence[ReportedRun]) -> bool:
    """Return whether a unit counts the work of all devices in each row, by what the rows say themselves."""
    said = {"steps/s": ("steps_per_second", "seconds_per_step"), "samples/s": ("samples_per_second",)}
    return all(run.given.keys() & {*said.get(unit, ("tokens_per_second",))} for run in measured)


def _rankings(found: Sequence[ReportedRun]) -> list[Finding]:
    """Find out whether the fastest row depends on the unit that is read."""
    measured = [run for run in with_speed(found) if not run.open_figures]
    of_one_device = any(uncounted_devices(a, b, TITLES["samples_per_second"]) for a, b in combinations(measured, 2))
    other_tokens = any(_count_other_tokens(a, b) for a, b in combinations(measured, 2))
    speeds = {
        "steps/s": [r.solved.known.get("steps_per_second") for r in measured],
        "samples/s": [r.solved.known.get("samples_per_second") for r in measured],
        "tokens/s at full length": [r.tokens_at_full_length for r in measured],
    }
    best = {}
    for unit, values in speeds.items():
        if len(measured) < 2 or None in values or len({r.packed for r in measured}) > 1:
            continue
        if ("tokens" in unit and other_tokens) or (of_one_device and not _of_all_devices(unit, measured)):
            continue
        top = max(values, key=lambda f: f.middle)
        first = [run for run, v in zip(measured, values, strict=True) if v is top or top.meets(v)]
        # if steps are the same work, rounding decides which of them is first; else "none is first" is an answer, too
        if len(first) == 1 or any(same_batch(first[0], run) is False for run in first):
            best[unit] = " and ".join(f"'{run.label}'" for run in first)
    if len(set(best.values())) < 2 or any(other_samples(measured[0], run, [*best][-1]) for run in measured[1:]):
        return []
    text = "; ".join(f"by {unit} it is {labels}" for unit, labels in best.items())
    last = list(best)[-1]
    why = f"which row is fastest depends on the unit: {text}. The work is most equal in {last}"
    left_out = [run.label for run in with_speed(found) if run.open_figures]
    where = "the rows whose figures agree" if left_out else "all rows"
    return [Finding(kind=FindingKind.RANKING, where=where, text=why)]
