"""Reasons why a comparison decides nothing although its interval seems to.

Its pairs may have missed what the run does rarely, such as stalls and reads from disk: then they refute no change that
acts there. Or equal arms (A/A) lie as far apart as the effect. Each rule returns its reason as a clause, or an empty
text if it does not apply.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slowstep.factors import Contrast, Meaning
from slowstep.judgement.comparison import ComparisonResult, aa_offset, change_by_samples, launches_of
from slowstep.judgement.first_reads import FirstReads
from slowstep.judgement.losses import DATA
from slowstep.judgement.observed_sizes import positions_of_sample
from slowstep.judgement.run_facts import MAY_STALL
from slowstep.judgement.stopping import needs_another_launch
from slowstep.judgement.suspects import LITTLE
from slowstep.judgement.throughput import sides, speed_up, throughput, works
from slowstep.judgement.timeline import NOTICED
from slowstep.records import PHASES, Block, ComparisonRecord
from slowstep.text.numbers import percent, percentage
from slowstep.text.phases import phase_named

NUMBERS_OF_SAMPLE = "numbers_of_sample"
"""The fact that holds the numbers which the model is called with for each sample, by argument."""

WEIGHTS = "model_weights"
"""The fact that says how many numbers the weights of the models hold."""

LARGEST_KEPT_PART = 0.6
"""The share of the numbers for each sample that a model is still called with, up to which a program with larger batches
is taken to train on a part of them. Batches of neighbours in a graph share more of these the larger they are."""

LENGTH_FACTS = {*DATA} - {"cached_batches"}
"""The facts that decide how long batches are."""


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What is known of the run as it is, beside the pairs of the comparison that is judged."""

    stalls: Mapping[str, float] = field(default_factory=dict)
    """The phases in which the baseline stalls now and then, each with its share of the baseline's time, 0 to 1."""
    noise: ComparisonRecord | None = None
    """The A/A comparison. What it shows of equal arms, as other losses or another speed, no change has to have made."""
    reads: FirstReads | None = None
    """A wait for files that later launches found in memory; None if there is none."""


@dataclass(frozen=True, kw_only=True)
class JudgedComparison:
    """A comparison, with what the rules below need to ask what its pairs missed."""

    contrast: Contrast
    record: ComparisonRecord
    result: ComparisonResult
    minimum: float
    """The minimum effect: 0.05 for 5 %."""
    device: str
    before: Mapping[str, float]
    """Share of the wall time, by phase, that the baseline spent in these pairs (`Verdict.before`)."""


def why_not_refuted(compared: JudgedComparison, context: RunContext) -> str:
    """Return why these pairs do not refute the change, though their interval does; an empty text if they do."""
    return (
        _why_neither(compared, context)
        or _still_starting(compared)
        or _long_batches_not_met(compared)
        or _stalls_removed(compared)
        or _stalls_not_met(compared, context.stalls)
        or _reads_not_met(compared, context.reads)
    )


def why_not_supported(compared: JudgedComparison, context: RunContext) -> str:
    """Return why these pairs do not support the change, though their interval does; an empty text if they do."""
    missed = _why_neither(compared, context) or _trains_on_part_of_batch(compared.record)
    missed = missed or _stalls_added(compared) or _shown_by_one_launch(compared)
    if compared.contrast.meaning is Meaning.DIAGNOSTIC:  # a limit that may lie higher
        return missed or _reads_not_met(compared, context.reads)
    return missed


def _why_neither(compared: JudgedComparison, context: RunContext) -> str:
    """Return why these pairs neither support nor refute the change, though their interval does; empty if they do."""
    unlike = _other_models(compared.record, context.noise)
    return unlike or _differs_from_itself(compared, context.noise) or _met_unlike_samples(compared)


def _other_models(record: ComparisonRecord, noise: ComparisonRecord | None) -> str:
    """Say that launches of the run as it is build unlike models, of which one may be faster; empty if they do not.

    A program may draw its model by chance, as one that searches for the best.
    """
    if noise is None:
        return ""
    launches = [noise.baseline, noise.treatment, *[record.baseline] * bool({*record.arms[:1]} & {*noise.arms})]
    sizes = [one.observed.get(WEIGHTS) for one in launches]
    known = sorted({size for size in sizes if isinstance(size, int) and size > 0})
    if len(known) < 2:
        return ""
    return (
        f"the program builds another model in each launch, with {known[0]:,} weights or with {known[-1]:,}, and one of "
        "them may be the faster one; let it build one model, as by the seed of what it draws it by"
    )


def _still_starting(compared: JudgedComparison) -> str:
    """Say that the changed run was still starting in these pairs, as most of the job is not; empty if it was not."""
    again, median = compared.record.treatment.observed.get("recompilations"), compared.result.median_ratio
    if not compared.record.treatment.settled:
        return "the changed run's steps were still becoming faster when its blocks began, and may have gone on so"
    if again and median >= 1 + compared.minimum:
        return (
            f"it was compiled anew {again} times by the end, and the median step shows {percent(median)}: once all "
            "shapes are known, the job may be as fast as that"
        )
    return ""


def _long_batches_not_met(compared: JudgedComparison) -> str:
    """Say that the change acts on how long batches are, and these pairs met shorter ones than an epoch has."""
    blocks, whole = sides(compared.record.pairs)[0], positions_of_sample(compared.record.baseline.observed)
    positions = [block.work.padded_tokens for block in blocks]
    if not (whole and all(positions) and compared.contrast.expects.keys() & LENGTH_FACTS):
        return ""
    met = sum(positions) / sum(block.work.samples for block in blocks)
    if compared.result.effect.high * whole / met < 1 + compared.minimum:
        return ""
    return (
        f"these pairs met {met:.0f} positions a sample, and an epoch has {whole:.0f}: they met too few of the long "
        "batches, on which the change acts most"
    )


def _met_unlike_samples(compared: JudgedComparison) -> str:
    """Say that the arms met samples of unlike lengths, and that these decide; empty if they did not.

    That happens where batches are grouped by length, and a few of them are all long. Truncation does not count: it
    makes samples shorter for good.
    """
    each = [throughput(side) for side in sides(compared.record.pairs)]
    if any(one.useful_tokens_per_second is None or one.cut_share is None for one in each):
        return ""
    before, after = (one.useful_tokens_per_second / one.samples_per_second for one in each)
    least, effect = math.log1p(compared.minimum), compared.result.effect
    if abs(each[0].cut_share - each[1].cut_share) > NOTICED or abs(math.log(after / before)) < least:
        return ""
    by_samples = change_by_samples(compared.record.pairs)
    if by_samples.upper < least if effect.upper < least else by_samples.lower > 0:
        return ""
    return (
        f"the arms met samples of unlike lengths ({before:.0f} and {after:.0f} useful tokens each), and by samples the "
        f"change is {percent(by_samples.ratio)}: what it is over an epoch, these blocks don't tell"
    )


def _trains_on_part_of_batch(record: ComparisonRecord) -> str:
    """Say that the program trains on a part of its larger batches, as far as its calls show; empty if it does not.

    It may cut what a buffer of its own has no room for. Some argument of the model grows with whole batches.
    """
    before, after = record.baseline.observed, record.treatment.observed
    small, large = (one.get("per_device_train_batch_size") for one in (before, after))
    given, still = (_positive(one.get(NUMBERS_OF_SAMPLE)) for one in (before, after))
    kept = max((still[name] / given[name] for name in given.keys() & still.keys()), default=1.0)
    if not (isinstance(small, int) and isinstance(large, int) and small < large and kept <= LARGEST_KEPT_PART):
        return ""
    return (
        f"batches have {large} samples in place of {small}, and the model is called with {kept:.2g} times as many "
        "numbers for each: the program may train on a part of them, and all are counted"
    )


def _positive(numbers: object) -> dict[str, float]:
    """Return the positive numbers of a mapping, which a record of somebody else may hold otherwise."""
    each = numbers.items() if isinstance(numbers, dict) else ()
    return {name: value for name, value in each if isinstance(value, int | float) and value > 0}


def _differs_from_itself(compared: JudgedComparison, noise: ComparisonRecord | None) -> str:
    """Say that the run differs from itself by as much as decides here; empty if it does not."""
    apart, effect, least = aa_offset(noise), compared.result.effect, math.log1p(compared.minimum)
    if effect.upper < least:
        decides, may = effect.upper + apart >= least, "hide a gain"
    else:
        decides, may = effect.lower <= apart, "be all of this gain"
    if not (apart and decides):
        return ""
    by = percentage(math.expm1(apart))
    return f"the run differs from itself by {by} without any change (A/A), beyond chance, which may {may}"


def _reads_not_met(compared: JudgedComparison, reads: FirstReads | None) -> str:
    """Say that the change acts on a wait for files which these pairs found in memory; empty if it does not."""
    if reads is None or not compared.contrast.acts_on(reads.phase):
        return ""
    if not reads.hides(compared.result.effect.high, 1 + compared.minimum):
        return ""
    return (
        f"the files were in memory by then: {reads}. A job that reads more than memory holds waits longer, and "
        "what the change brings to it is not known"
    )


def _stalls_removed(compared: JudgedComparison) -> str:
    """Say that the change shortens waits which few pairs met, so that the median pair hides its gain."""
    result = compared.result
    if not (result.effect.median and _fewer_stalls(*sides(compared.record.pairs), compared.minimum)):
        return ""
    return f"{_median_and_whole(result)}, since waits of the run grow shorter: they come too rarely for these pairs"


def _stalls_added(compared: JudgedComparison) -> str:
    """Say that the changed run stalls in a few pairs, so that the median pair hides what the change costs."""
    before, after = sides(compared.record.pairs)
    if not (compared.result.effect.median and _fewer_stalls(after, before, compared.minimum)):
        return ""
    return f"{_median_and_whole(compared.result)}, since the changed run waits for long in a few of these pairs"


def _shown_by_one_launch(compared: JudgedComparison) -> str:
    """Say that one launch alone shows the gain, whose own speed may be all of it; empty if others confirm it."""
    launches = launches_of(compared.record.pairs)
    if not needs_another_launch(compared.result.effect, launches):
        return ""
    return (
        "all of its pairs are of one launch of each arm, and two launches of the same run may differ by as much: "
        "another launch has to show it, too"
    )


def _median_and_whole(result: ComparisonResult) -> str:
    return (
        f"the median pair shows {percent(result.effect.ratio)}, and over all the time measured the change is "
        f"{percent(result.total_ratio)}"
    )


def _stalls_not_met(compared: JudgedComparison, stalls: Mapping[str, float]) -> str:
    """Say that these pairs met too little of the stalls that the change acts on."""
    missed = {
        phase: share
        for phase, share in sorted(stalls.items())
        if phase in compared.contrast.touched(compared.device) and share * LITTLE > compared.before.get(phase, 0.0)
    }
    if not missed:
        return ""
    return (
        f"the baseline stalls now and then in {' and '.join(map(phase_named, missed))}, where it spends "
        f"{' and '.join(map(percentage, missed.values()))} of its time, and these pairs met too little of that to "
        "say what the change brings"
    )


def _fewer_stalls(before: Sequence[Block], after: Sequence[Block], minimum: float) -> bool:
    """Return whether `after` is without waits worth the minimum effect, over all the time measured."""
    work = works(before, after)

    def seconds_per_work(side: int, phases: Sequence[str]) -> float:
        return sum(b.phases.get(p, 0.0) for b in (before, after)[side] for p in phases) / sum(work[side])

    waits, whole = (seconds_per_work(0, phases) for phases in (MAY_STALL, PHASES))
    removed = (waits - seconds_per_work(1, MAY_STALL)) / whole
    faster = whole / seconds_per_work(1, PHASES)
    return speed_up(removed) >= 1 + minimum and faster >= 1 + minimum
