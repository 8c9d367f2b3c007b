"""Notes on a comparison: what a reader should know beside its effect."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from slowstep.judgement import losses
from slowstep.judgement.bounds import Bound
from slowstep.judgement.comparison import STALL, ComparisonResult
from slowstep.judgement.course import LEAST_CHANGE, Course, courses
from slowstep.judgement.intervals import Interval
from slowstep.judgement.throughput import samples_per_step, seconds_per_sample, sides
from slowstep.records import Block, ComparisonRecord, TrialRecord
from slowstep.text.numbers import percent, percentage
from slowstep.text.phases import phase_named

HOW_MUCH = re.compile(r"(?<=took |used )[\d.,]+ %")
"""How much others took, in `Block.interrupted`, which differs from block to block."""

LATE_SECONDS = 2.0
"""The seconds by which a start may be later without a note."""


def notes_on(record: ComparisonRecord, result: ComparisonResult, bound: Bound | None, exact: bool) -> list[str]:
    """Return what a reader of a comparison should know beside its effect, in a sentence each.

    `bound` is what was expected of the change at most, and `exact` whether it leaves training as it is.
    """
    return [
        *_bound_notes(result, bound),
        *_stall_notes(result),
        *(_growth_notes(record) if result.effect.lower > 0 else ()),
        *_loss_notes(record, exact),
        *_start_notes(record, result.effect),
        *_measuring_notes(record),
    ]


def _bound_notes(result: ComparisonResult, bound: Bound | None) -> list[str]:
    if bound is None or result.effect.low <= bound.ratio:
        return []
    return [f"measured beyond its bound ({bound}), so the bound's assumption is wrong here"]


def _stall_notes(result: ComparisonResult) -> list[str]:
    """Return the notes on stalls of one arm, and on pairs that lie far out."""
    notes = []
    if result.stall:
        notes.append(
            f"over all steps it is {percent(result.total_ratio)}, and {percent(result.median_ratio)} by the median "
            "step: one arm stalls now and then"
        )
    if result.effect.median and abs(math.log(result.total_ratio) - result.effect.mean) > STALL:
        notes.append(
            "single pairs lie far out, so the median pair is judged; over all the time measured the change is "
            f"{percent(result.total_ratio)}, which counts if the stalls are the run's own and not the machine's"
        )
    return notes


def _measuring_notes(record: ComparisonRecord) -> Iterator[str]:
    """Yield the notes on how pairs were measured: the warm-up, interrupted blocks, weights that trials share."""
    if not (record.baseline.settled and record.treatment.settled):
        yield "the step time was still falling when warm-up ended"
    if record.redone:
        yield f"blocks measured again, with their pairs, because something interrupted them: {len(record.redone)}"
    yield from _shared_weight_notes(record)
    if interrupted := disturbances(b.interrupted for b in record.blocks):
        causes, count = ", ".join(why for why, _ in interrupted), sum(times for _, times in interrupted)
        yield f"{count} of {2 * len(record.pairs)} blocks were still interrupted: {causes}"


def _shared_weight_notes(record: ComparisonRecord) -> list[str]:
    """Return the notes on trials that wrote into frozen weights which they share."""
    if losses.wrote_into_others(record):
        return [
            "a trial wrote into the frozen weights that trials share on the device, so losses of both arms say nothing "
            "about each other"
        ]
    notes = []
    for which, trial in (("baseline", record.baseline), ("changed run", record.treatment)):
        if written := trial.observed.get("frozen_bytes_written"):
            notes.append(
                f"the {which} wrote into {written / 2**20:.0f} MiB of the frozen weights that trials share, so it has "
                "copies of its own of them"
            )
    return notes


def passing(one: Course) -> str:
    """Return the note on a change that acts in a phase whose time falls by itself as training goes on."""
    by = percentage(1 - one.last / one.first)
    over = f"as the first epoch of {one.epoch:,} steps ends"
    along = f"from the first third of {one.steps:,} steps to the last"
    return (
        f"what costs there falls by itself, by {by} {over if one.epoch else along}, so this holds for the beginning of "
        "the training"
    )


def outgrown(grown: Sequence[Course]) -> str:
    """Return the note on a change that does not act in the phases whose time grows as training goes on."""
    phases = " and ".join(phase_named(one.phase) for one in grown)
    longer, over = sum(one.change - 1 for one in grown), max(one.steps for one in grown)
    return (
        f"steps become {percentage(longer)} longer by what grows in {phases} over the {over:,} steps watched, where "
        "this change does not act, so its gain holds for the beginning of the training and is smaller later"
    )


def _growth_notes(record: ComparisonRecord) -> list[str]:
    """Return the notes on phases that grow as the changed run trains on, and do not without the change."""
    before = {one.phase for one in courses(record.baseline.steps, LEAST_CHANGE) if one.grows}
    grow = [one for one in courses(record.treatment.steps, LEAST_CHANGE) if one.grows and not one.once]
    return [
        f"{phase_named(one.phase)} takes longer the further the changed run has trained (its steps grew by "
        f"{percentage(one.change - 1)} in {one.steps:,} steps), so the gain holds for the beginning alone"
        for one in grow
        if one.phase not in before
    ]


def _loss_notes(record: ComparisonRecord, exact: bool) -> list[str]:
    """Return the note on losses that show nothing of what is trained."""
    if (reached := losses.learning_rate_reached(record)) is not None:
        unknown = exact and losses.same(record, reorders_draws=True) is None
        rests = ", and it rests on the class that it is exact" if unknown else ""
        return [
            f"the learning rate only reached {percentage(reached)} of the one that was set in the steps whose losses "
            f"are compared, as early in a warm-up, so they show nothing of the updates{rests}"
        ]
    if exact and losses.same(record, reorders_draws=True) is None and losses.same(record) is None:
        return ["the mean losses of both arms can't be compared, so it rests on the class that it is exact"]
    return []


def _start_notes(record: ComparisonRecord, effect: Interval) -> list[str]:
    """Return notes on a change that starts much later than the baseline, as it compiles or tokenises.

    They say after how many steps its gain, the judged `effect`, has paid for that, where it has one beyond chance.
    """
    baseline, treatment = sides(record.pairs)
    late = _untrained(record.treatment, treatment) - _untrained(record.baseline, baseline)
    saved = seconds_per_sample(baseline) * (1 - 1 / effect.ratio)
    notes = []
    if late > LATE_SECONDS:
        paid = (
            f"regained after {late / (saved * samples_per_step(treatment)):,.0f} steps"
            if effect.lower > 0
            else "never regained"
            if effect.upper < 0
            else "not known to be regained"
        )
        notes.append(f"it starts {late:.0f} s later, which is {paid}")
    again = record.treatment.observed.get("recompilations") or 0
    if again:
        notes.append(f"compiled anew {again} times by the end, for shapes or values that no graph before allowed")
    return notes


def _untrained(trial: TrialRecord, blocks: Sequence[Block]) -> float:
    """Return the seconds of a trial's start that trained nothing; warm-up steps train, at the pace of its blocks."""
    trained = sum(b.seconds - sum(b.amortised.values()) for b in blocks)  # no periodic event fell into the warm-up
    pace = trained / sum(b.steps for b in blocks)
    return sum(trial.startup.values()) - trial.warmup_steps * pace


def disturbances(reasons: Iterable[str | None]) -> list[tuple[str, int]]:
    """Return what interrupted blocks, each with their number, most first. None among the reasons is a quiet block."""
    return Counter(HOW_MUCH.sub("part", one) for one in reasons if one).most_common()
