"""The judgement of a claim by its figures: at equal work, against bounds, controls, noise and other differences."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from slowstep.audit.differences import changed, differences
from slowstep.audit.disputed import disputed, gains_without
from slowstep.audit.equal_work import (
    OF_A_DEVICE,
    OF_PRICE,
    WHOLE,
    WORK,
    counts_steps,
    equal_work,
    faster_is_less,
    lengths_differ,
    padding_differs,
    read_by,
    read_from,
    same_batch,
    tokens_disagree,
    work_done,
)
from slowstep.audit.figures import Figure, exact, figure
from slowstep.audit.findings import Finding, FindingKind, Judged, Judgement, times
from slowstep.audit.limits import beyond_bound, controls
from slowstep.audit.physics import Sizes
from slowstep.audit.projected import expectation
from slowstep.audit.relations import CONSEQUENCE, TITLES
from slowstep.audit.run import Run, batches, same_devices, unknown_differences
from slowstep.factors import CATALOGUE
from slowstep.factors.factor import show_all
from slowstep.settings.reported import Claim

CONFIDENCE = 0.95

TOUCHING = 1e-9
"""The relative overlap of two figures that the rounding of floating point alone may cause."""

SURE = 0.5
"""The largest share of a claimed effect that rounding may change if the claim is to hold."""

DIGIT = 0.005
"""The share by which a ratio may be off that is told with two decimals."""

FIGURES_ALLOW = "as they are given, the figures allow anything from {} to {}"

MOST = 1e9
"""The upper end, as a ratio, of a claim that something is faster by any amount."""

CUT = "the figures don't say how much of that is padding no longer computed, and how much is text no longer seen"
UNKNOWN = "this is a total time, and the figures don't say whether both runs did as much work in it"
PADDED = "the figures don't say whether the tokens a second count padding, and the two runs differ in its share"
BATCH = "the figures don't say whether a step trains on as many samples in both"
DEVICES = "the speeds are those of one device, and the figures don't say how many devices each was trained on"
"""Doubts that only the author of the report can resolve."""

COUNTED = re.compile(
    r"(?<![\w.])(?<!rtx )(?<!gtx )(?<!quadro )(?<!geforce )"
    r"(\d{1,5})\s?[x×]?[\s_-]?(?:gpu|device|card|chip|node|tpu)s?(?![a-z])"
    r"|(?:gpu|device)s?[\s_-]?([1-9]\d{0,4})(?!\d)",
    re.IGNORECASE,
)
"""Words that count devices: `64 GPUs`, `run_gpu8`."""

COMPARED = re.compile(r"\b(?:as|than|vs\.?|versus|over|on)\s+(\d{1,4})(?=\s*(?:[,;)]|\.(?!\d)|$))", re.IGNORECASE)
"""A number that another one is compared with, without the thing that is counted: `64 GPUs are as fast as 8`."""

PARTS_OF_BATCH = {"per_device_train_batch_size", "auto_find_batch_size", "gradient_accumulation_steps"}
"""Settings that make up the samples of a step."""

OF_BATCHES = {
    *("per_device_train_batch_size", "gradient_accumulation_steps"),
    *("larger_micro_batches", "larger_batches", "processes"),
}
"""Factors that make up the samples of a step."""

OTHER_STEP = 0.1
"""The share by which the samples of two steps differ that are of another size, and not only rounded."""

LARGEST_LOG = 100.0
"""The logarithm of the largest ratio that is told."""

NEVER = "; these figures are expected and were never measured"

REPEATED = ("seconds_per_step", *WORK)
"""Figures whose repeats are used to judge noise."""


def judge(claim: Claim, runs: Sequence[Run], sizes: Sizes | None = None) -> Judged:
    """Judge a claim on two of the `runs`, its treatment and its baseline, at equal work where the figures allow it."""
    a, b = (next(r for r in runs if r.label == label) for label in (claim.baseline, claim.treatment))
    gain, unit = equal_work(a, b, claim.quantity)
    named, stated, doubt = _with_factor(claim, a, b), _stated(claim), doubt_of(claim, a, b, gain, unit)
    by_repeats = interval_of_repeats(a, b, gain) if gain else None
    findings = [
        *([] if doubt == UNKNOWN or doubt.startswith(BATCH) else _unit_trap(claim, a, b, gain, unit, stated)),
        *beyond_bound(named, a, b, stated, sizes),
        *controls(named, a, b),
        *_confounded(claim, a, b),
        *_meaning(claim, a, b),
        *(_noise_of_repeats(claim, a, b, by_repeats) if by_repeats else _rounding(claim, gain, stated)),
        *expectation(named, a, b, runs),
        *_by_epochs(claim, a, b, gain, unit),
    ]
    dispute = _dispute(claim, a, b, gain, stated) if gain and stated else ""
    left_open = dispute or (_left_open(gain, stated, by_repeats) if gain and stated else "")
    contradicted = bool(gain and stated and not dispute and _contradicts(gain, stated))
    judgement, reason = _weigh(gain, unit or _no_speed(a, b), stated, findings, doubt, contradicted, left_open)
    also = unknown_differences(a, b, claim.factor)
    if judgement is Judgement.HOLDS and also:
        reason += f"; the two also differ in {also}"
    return Judged(
        claim=claim,
        judgement=judgement,
        reason=reason,
        gain=gain,
        unit=unit,
        findings=findings,
        questions=_questions(claim, a, b, doubt),
    )


def impossible(claim: Claim, a: Run, b: Run, runs: Sequence[Run], sizes: Sizes | None = None) -> list[Finding]:
    """Find what two rows say that can't be, or that was measured otherwise, independently of any conclusion."""
    found = [*beyond_bound(claim, a, b, equal_work(a, b)[0], sizes), *controls(claim, a, b)]
    return found + [f for f in expectation(claim, a, b, runs) if f.kind is FindingKind.MEASURED]


def _with_factor(claim: Claim, a: Run, b: Run) -> Claim:
    """Return the claim with its factor: if it names none, the only one in which its rows differ."""
    differ = differences(a.settings, b.settings)
    return replace(claim, factor=differ[0][0].name) if claim.factor is None and len(differ) == 1 else claim


def _stated(claim: Claim) -> Figure | None:
    """Return the claimed speed-up: `>1` is anything faster, `1/3` three times slower; None where no size is given."""
    said = claim.speed_up
    if isinstance(said, str) and said[:1] in ("<", ">"):
        end = figure(said[1:]).middle
        return Figure(0.0, end) if said[0] == "<" else Figure(end, MOST)
    if isinstance(said, str) and said.startswith("1/"):
        return 1 / _size(said[2:])
    return None if said is None else _size(said)


ABOUT = 0.05
"""The share by which the size of a claim may be off that is given as a whole number: "twice as fast", "no slower"."""


def _size(said: object) -> Figure:
    """Return a claimed size. One without decimals is not exact, and not as wide as its rounding either."""
    found = figure(said)
    whole = found.middle == round(found.middle) and found.high - found.low > 2 * ABOUT * found.middle > 0
    return Figure((1 - ABOUT) * found.middle, (1 + ABOUT) * found.middle, found.middle) if whole else found


def _unit_trap(claim: Claim, a: Run, b: Run, gain: Figure | None, unit: str, stated: Figure | None) -> list[Finding]:
    """Find that a claim was read from a figure that counts other work, unless it says what equal work says."""
    if gain is not None and stated is not None and stated.meets(gain):
        return []
    read = read_from(claim.quantity, a, b) if claim.quantity else None
    if gain is None or read is None or read.meets(gain) or TITLES[claim.quantity] == unit:
        return []
    text = (
        f"read in {TITLES[claim.quantity]} '{b.label}' is {times(read.middle)} as {_good(unit)}; in {unit}, which "
        f"counts equal work, it is {times(gain.middle)}"
    )
    return [Finding(kind=FindingKind.UNIT, where=claim.text, text=text)]


def _good(unit: str) -> str:
    return "cheap" if unit.startswith(tuple(TITLES[q] for q in OF_PRICE)) else "fast"


def doubt_of(claim: Claim, a: Run, b: Run, gain: Figure | None, unit: str) -> str:
    """Return why speeds can't be compared without more information; empty where they can."""
    if lengths_differ(a, b) and not (a.packed and b.packed):
        return CUT
    if tokens_disagree(a, b) or (unit == TITLES["tokens_per_second"] and padding_differs(a, b)):
        return PADDED
    whole = read_from(claim.quantity, a, b) if claim.quantity in WHOLE else None
    unknown = whole and gain and not work_done(claim.quantity, a, b)
    # no other figure counts equal work
    alone = unknown and claim.quantity not in OF_PRICE and unit == TITLES["seconds"]
    if alone or (unknown and not whole.meets(gain)):  # type: ignore[union-attr]
        return UNKNOWN
    if _devices_unknown(claim, a, b):
        return DEVICES
    differ = changed(a.settings, b.settings).keys()
    return _batch_unknown(a, b, unit) if not differ or differ & PARTS_OF_BATCH else ""


def _devices_unknown(claim: Claim, a: Run, b: Run) -> bool:
    """Return whether speeds of one device stand for those of several, whose number only words give."""
    counts = [_counted_in(words) for words in (a.label, b.label)]
    if not all(counts):
        of_text = _counted_in(claim.text)
        counts = [of_text, of_text | {*COMPARED.findall(claim.text)}] if of_text else []
    several = len(set().union(*counts)) > 1
    of_one = claim.quantity is not None and claim.quantity.endswith(OF_A_DEVICE)
    return several and not of_one and all(_of_one_device(r) for r in (a, b))


def _counted_in(words: str) -> set[str]:
    """Return the numbers of devices that words tell."""
    return {number for found in COUNTED.findall(words) for number in found if number}


def _of_one_device(run: Run) -> bool:
    each = [q.removesuffix(OF_A_DEVICE) for q in run.given if q.endswith(OF_A_DEVICE)]
    return bool(each) and "devices" not in run.given and run.given.keys().isdisjoint(each)


def _dispute(claim: Claim, a: Run, b: Run, gain: Figure, stated: Figure) -> str:
    """Return a doubt if the gain depends on which of contradicting figures is wrong, and the judgement may, too."""
    gains = [gain, *gains_without(a, b, claim.quantity).values()]
    return "" if all(_contradicts(each, stated) for each in gains) else disputed(a, b, gain, claim.quantity)


def _contradicts(gain: Figure, stated: Figure) -> bool:
    """Return whether a gain is not what was claimed. A claim of a size has a tolerance, and an inequality has none."""
    of_a_size = stated.low > 0 and stated.high < MOST
    return gain.gap(stated) > CONSEQUENCE or not (of_a_size or gain.meets(stated))


def _batch_unknown(a: Run, b: Run, unit: str) -> str:
    """Return a doubt if two runs were compared by steps of which nobody says how many samples they have."""
    if not counts_steps(unit, a, b) or same_batch(a, b) is not None:
        return ""
    before, after = (r.solved.known.get("steps") for r in (a, b))
    if not before or not after or before.meets(after):
        return BATCH
    return f"{BATCH}, and '{b.label}' took {after} steps where '{a.label}' took {before}, as with another batch"


def _confounded(claim: Claim, a: Run, b: Run) -> list[Finding]:
    """Find that other settings differ than the claim's factor alone, so that the gain may be that of all of them."""
    differ, factor = changed(a.settings, b.settings), CATALOGUE.get(claim.factor or "")
    if factor and not same_devices(a, b):
        text = f"'{b.label}' was trained on {counted_devices(b)}, and '{a.label}' on {counted_devices(a)}"
        return [Finding(kind=FindingKind.CONFOUNDED, where=claim.text, text=text)]
    if factor and claim.factor not in OF_BATCHES and not changed(a.settings, b.settings).keys() & PARTS_OF_BATCH:
        before, after = batches(a, b)
        if before and after and before.gap(after) > OTHER_STEP:
            text = f"a step of '{b.label}' trains on {after} samples, and one of '{a.label}' on {before}"
            return [Finding(kind=FindingKind.CONFOUNDED, where=claim.text, text=text)]
    unknown = unknown_differences(a, b, claim.factor)
    if factor and unknown:
        also = "also differ" if differ else "differ"
        text = f"'{a.label}' and '{b.label}' {also} in {unknown}"
        return [Finding(kind=FindingKind.CONFOUNDED, where=claim.text, text=text)]
    held = {run.unknown.get(claim.factor) for run in (a, b)}
    by_column = None not in held and len(held) > 1
    if not factor or (by_column and not differ) or _only_factor_differs(claim.factor, differ, a, b):
        return []
    names = show_all(differ)
    if by_column:
        text = f"'{b.label}' differs from '{a.label}' in more than {claim.factor}: {names}"
    elif None not in held and not differ:
        text = f"'{a.label}' and '{b.label}' have the same {claim.factor}"
    elif not differ:
        text = f"the report doesn't say which settings differ, so the gain can't be put down to {claim.factor}"
    elif factor.current(a.settings.run) == factor.current(b.settings.run) and {*differ} == {claim.factor}:
        text = f"'{a.label}' and '{b.label}' have the same {claim.factor}, given or by default"
    elif factor.current(a.settings.run) == factor.current(b.settings.run):
        text = f"'{b.label}' does not differ from '{a.label}' in {claim.factor}, but in {names}"
    elif len(differ) > 1:
        text = f"'{b.label}' differs from '{a.label}' in more than {claim.factor}: {names}"
    else:
        return []
    return [Finding(kind=FindingKind.CONFOUNDED, where=claim.text, text=text)]


def counted_devices(run: Run) -> str:
    """Return the number of a run's devices in words, and whether it only follows from its figures."""
    follows = run.devices.middle != 1 and "devices" not in run.given
    return f"{run.devices} device{'s' * (run.devices.middle != 1)}{' (by its figures)' * follows}"


def _only_factor_differs(factor: str, differ: Mapping[str, object], a: Run, b: Run) -> bool:
    """Return whether all settings that differ belong to one level of the factor.

    An example is accumulation: the same samples a step in fewer and larger parts.
    """
    levels = differences(a.settings, b.settings)
    sets = {key.rpartition(".")[2] for _, level in levels for key in level.changes}
    return [f.name for f, _ in levels] == [factor] and differ.keys() <= sets


def _meaning(claim: Claim, a: Run, b: Run) -> list[Finding]:
    before, after = batches(a, b)
    if not before or not after or before.meets(after):
        return []
    text = f"a step trains on {after} samples in place of {before}: another optimisation, not only another speed"
    return [Finding(kind=FindingKind.MEANING, where=claim.text, text=text)]


def _by_epochs(claim: Claim, a: Run, b: Run, gain: Figure | None, unit: str) -> list[Finding]:
    """Find that samples a second say the opposite of epochs, which are the same data, or the other way round."""
    speeds = {TITLES[q]: read_from(q, a, b) for q in ("samples_per_second", "seconds_per_epoch")}
    if (
        gain is None
        or None in speeds.values()
        or unit not in (*speeds, TITLES["tokens_per_second"])
        or a.packed != b.packed
    ):
        return []
    other = next(u for u in reversed(speeds) if u != unit)
    work = work_done("seconds_per_epoch", a, b) if "epoch" in other else None
    if (work and not work[0].meets(exact(1))) or not (gain.middle - 1) * (speeds[other].middle - 1) < 0:
        return []
    if min(abs(g.middle - 1) for g in (gain, speeds[other])) <= CONSEQUENCE or gain.meets(exact(1)):
        return []
    text = f"{read_by(other)} it is {times(speeds[other].middle)} as fast, and an epoch is the same data"
    return [Finding(kind=FindingKind.UNLIKELY, where=claim.text, text=text)]


def width_of(a: Run, b: Run, gain: Figure) -> str:
    """Return what the repeats of both rows allow a gain to be; without them what their figures allow, if that is much.

    It is much where it is more than half of the effect, and more than the digits of a ratio show.
    """
    interval = interval_of_repeats(a, b, gain)
    if interval:
        return f"the repeats allow anything from {times(interval.low)} to {times(interval.high)}"
    wide = math.log(gain.high / gain.low) / 2 > max(SURE * abs(math.log(gain.middle)), DIGIT)
    return FIGURES_ALLOW.format(times(gain.low), times(gain.high)) if wide else ""


def _rounding(claim: Claim, gain: Figure | None, stated: Figure | None) -> list[Finding]:
    """Find out whether the figures with their rounding allow both a gain and a loss, and the claim does not."""
    if gain is None or gain.middle <= 0 or stated is None or stated.low < 1 < stated.high:
        return []
    if not (gain.low < 1 - TOUCHING and gain.high > 1 + TOUCHING) or _contradicts(gain, stated):
        return []
    ends = times(gain.low), times(gain.high)
    text = (
        FIGURES_ALLOW.format(*ends) if ends[0] != ends[1] else "as they are given, the figures allow either direction"
    )
    return [Finding(kind=FindingKind.NOISE, where=claim.text, text=text)]


def _noise_of_repeats(claim: Claim, a: Run, b: Run, interval: Figure) -> list[Finding]:
    """Find out whether the repeats of both rows differ among themselves as much as the rows do."""
    quantity = _repeated(a, b)
    if quantity is None or not interval.low <= 1 <= interval.high:
        return []
    counts = f"{len(a.repeats[quantity])} and {len(b.repeats[quantity])} repeats of {TITLES[quantity]}"
    text = f"{counts} differ among themselves as much as the two rows do"
    return [Finding(kind=FindingKind.NOISE, where=claim.text, text=text)]


def interval_of_repeats(a: Run, b: Run, gain: Figure) -> Figure | None:
    """Return the gain with the interval that the repeats of both rows allow, by Welch's t; None if they tell none."""
    quantity = _repeated(a, b)
    if quantity is None:
        return None
    values = [r.repeats[quantity] for r in (a, b)]
    if gain.middle <= 0 or min(map(min, values)) <= 0:
        return None
    sign = -1 if faster_is_less(quantity) else 1
    before, after = ([sign * math.log(v) for v in each] for each in values)
    shift = math.log(gain.middle) - (statistics.fmean(after) - statistics.fmean(before))  # from this unit to equal work
    if len({*before}) == 1 and len({*after}) == 1:
        return None
    from scipy.stats import ttest_ind  # importing it takes most of an audit's start, and it is seldom needed

    interval = ttest_ind([v + shift for v in after], before, equal_var=False).confidence_interval(CONFIDENCE)
    if not interval.low > -LARGEST_LOG or not interval.high < LARGEST_LOG:  # nan where one row has a single figure
        return None
    return Figure(math.exp(interval.low), math.exp(interval.high), gain.middle)


def _repeated(a: Run, b: Run) -> str | None:
    """Return the quantity that was measured several times in both rows; None if there is none."""
    return next((q for q in a.repeats if q in b.repeats and q in REPEATED), None)


def _no_speed(a: Run, b: Run) -> str:
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
        return Judgement.CONTRADICTED, f"{at}, and {_claimed(stated)} was claimed{unmeasured}{otherwise}"
    return _not_contradicted(at, kinds, left_open)


def _left_open(gain: Figure, stated: Figure, by_repeats: Figure | None) -> str:
    """Return what is left open of a size that agrees, by repeats or else by rounding; empty where nothing is.

    - A claim of a size is left open where rounding alone may change the effect by more than half of it: 2 % where it
      may be 0 to 6 %.
    - A claim of no change is left open where the change may be larger than the claim's own rounding allows.
    - A claim of a direction is left open where there may be no change.
    """
    gain = by_repeats or gain
    of_a_size, equal = stated.low > 0 and stated.high < MOST, stated.low <= 1 <= stated.high
    if not of_a_size:
        within = stated.low * (1 + TOUCHING) < gain.low and gain.high * (1 + TOUCHING) < stated.high
    elif gain.low <= 0 or gain.high == math.inf:
        within = False
    else:
        room = max(stated.high - 1, 1 - stated.low) if equal else SURE * abs(math.log(stated.middle))
        within = math.log(gain.high / gain.low) / 2 <= room
    what = "rounding allows" if by_repeats is None else "the repeats allow"
    return "" if within else f"{what} anything from {times(gain.low)} to {times(gain.high)}"


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


def _claimed(stated: Figure) -> str:
    if stated.high == MOST:
        return f"more than {times(stated.low)}"
    return f"less than {times(stated.high)}" if stated.low == 0 else times(stated.middle)


def _padded(a: Run, b: Run) -> str:
    """Return the names of the rows that can hold padding; packed ones have none."""
    return " and ".join(f"'{r.label}'" for r in (a, b) if not r.packed)


def _questions(claim: Claim, a: Run, b: Run, doubt: str) -> list[str]:
    found = []
    if claim.factor and not changed(a.settings, b.settings) and not unknown_differences(a, b):
        found.append(f"Which settings differ between '{a.label}' and '{b.label}'? None are given")
    if doubt == CUT:
        short = min(n for n in (a.length, b.length) if n)
        found.append(
            f"What share of the positions is padding in {_padded(a, b)}? If the samples are shorter "
            f"than {short} tokens, it was padding that cost the time"
        )
        found.append(f"What share of the tokens does a length of {short} cut off?")
    if doubt == PADDED:
        found.append(f"Do the tokens a second of {_padded(a, b)} count padding?")
    if doubt.startswith(BATCH):
        found.append(f"How many samples does a step of '{a.label}' and one of '{b.label}' train on?")
    if doubt == DEVICES:
        found.append(f"On how many devices were '{a.label}' and '{b.label}' trained?")
    if doubt == UNKNOWN:
        found.append(f"How many steps or epochs did '{a.label}' and '{b.label}' take?")
    if b.out_of_memory:
        found.append(f"Does '{b.label}' fit with a smaller batch, accumulated to the same samples a step?")
    elif a.repeats and b.repeats:
        found.append(f"Did the repeats of '{a.label}' and '{b.label}' take turns, or did one come after the other?")
    elif not b.projected:
        found.append(
            f"How often was '{b.label}' measured, over how many steps after its warm-up, and in turns with '{a.label}' "
            "or at another time?"
        )
    return found
