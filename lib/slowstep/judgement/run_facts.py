"""Facts about a run that its measurements tell: those of the baseline are known before any factor is tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from slowstep.judgement.drift import UNKNOWN, Drift
from slowstep.judgement.events_alone import EventSeconds, event_seconds
from slowstep.judgement.first_reads import FirstReads, as_in_job
from slowstep.judgement.flops import TokenFlops, token_flops
from slowstep.judgement.held_up import not_held_up
from slowstep.judgement.intervals import Interval
from slowstep.judgement.observed_sizes import samples_of_step
from slowstep.judgement.operators import SHORT_PROFILE_ERROR
from slowstep.judgement.shares import with_event
from slowstep.judgement.throughput import Throughput, samples_per_step, seconds_per_step, throughput
from slowstep.judgement.timeline import NOTICED, StepsSeen, Timeline, steps_to_see, timeline
from slowstep.records import PHASES, Block, ComparisonRecord, EventRecord, Place, ProfileRecord, Steps
from slowstep.settings import Settings
from slowstep.settings.periodic_events import EVENTS, is_rare, steps_between

MAY_STALL = ("data", "host_to_device", "communication", "log", "save", "evaluate", "other")
"""The phases in which a run waits for something, perhaps only now and then."""


@dataclass(frozen=True, kw_only=True)
class StallFactors:
    """The factors by which steps are longer on the mean than those of the blocks, which did not meet all stalls."""

    mean: float = 1.0
    shorter: float = 1.0
    """The factor on `mean` by which steps may be shorter still."""
    longer: float = 1.0
    """The factor on `mean` by which steps may be longer still."""


NO_STALLS = StallFactors()
"""The factors of a run whose blocks met all stalls."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Facts about one run: the baseline, or what is adopted in its place.

    Those of the baseline rest on all its steady steps that the investigation has timed in any comparison.
    """

    blocks: Sequence[Block]
    """The blocks of one comparison, measured as a whole; of the baseline those of several launches (A/A)."""
    own_steps: Sequence[Steps]
    """The steps of that comparison."""
    timeline: Timeline
    throughput: Throughput
    length: float | None
    """Mean positions a sequence, padding included."""
    flops: TokenFlops | None
    observed: dict[str, object]
    cached_batch_ceiling: Interval | None = None
    """The gain of batches ready in memory, as a log-ratio; None until it is measured."""
    periodic_events: Mapping[str, float | None] = field(default_factory=dict)
    """Share of the job's time, 0 to 1, that each event too rare for a block takes at most; None where not known."""
    events_alone: Mapping[str, Interval] = field(default_factory=dict)
    """Share of the job's time, 0 to 1, that each of these events takes, where it was measured on its own."""
    peak_flops: float | None = None
    """The device's peak in FLOP/s."""
    other_peaks: Mapping[str, float] = field(default_factory=dict)
    """Its peak in FLOP/s in other arithmetic, by PyTorch's name of that, where it was measured."""
    product_rate: float | None = None
    """The FLOP/s that large products of this run reach on the processor; None with a device, where other processes
    train beside it, and where the run has fewer threads than reached that."""
    profile: ProfileRecord | None = None
    """Some steps under the profiler; None if there are none."""
    places: Sequence[Place] = ()
    """The lines of code that the time of some steps went to, of steps without the profiler."""
    on_nodes: Sequence[int] = ()
    """The number of ranks on each node; empty where it is not known."""
    was_held_up: bool = False
    """True if something else on the machine held up its blocks, as steps that were timed at other times show."""
    drift: Drift = UNKNOWN
    """The drift of its speed at other moments from that of its blocks."""
    first_reads: FirstReads | None = None
    """A wait for files that later launches found in memory; None if there is none. If it matters in the job, the
    timeline holds only the steps that read them from disk."""
    first_wait: float | None = None
    """Seconds, at the most, that a launch waited for its first batch; None if unknown."""
    rarest_stall: int = 500
    """The rarity that matters. A bound refutes a wait only if stalls in one of so many steps would have been met."""

    @cached_property
    def shares(self) -> dict[str, Interval]:
        """Return the share of the wall time of each phase, 0 to 1, with its interval."""
        return {phase: self.timeline.share(phase) for phase in PHASES}

    def share(self, phase: str) -> float:
        """Return the mean share of a phase, 0 to 1."""
        return self.shares[phase].mean

    def share_of_job(self, phase: str) -> Interval:
        """Return the share of the job's time, 0 to 1, that a phase takes.

        It is the phase's share of the steps, with that of its periodic event if the event was measured alone.
        """
        steps, alone = self.shares[phase], self.events_alone.get(phase)
        return steps if alone is None else with_event(steps, alone)

    def most(self, *phases: str) -> float:
        """Return the upper end of the share of some phases together, at most 0.99. Bounds rest on it."""
        return min((self.timeline.share(*phases) if len(phases) > 1 else self.shares[phases[0]]).upper, 0.99)

    @cached_property
    def stall_factors(self) -> StallFactors:
        """Return how much longer steps are once waits count that the blocks did not meet.

        A few waits don't tell how many come, so the factor has two ends. Both are 1 if no step waits for far longer
        than others do.
        """
        in_stalls = self.timeline.in_stalls(*MAY_STALL)
        mean = (1 - timeline(self.own_steps).in_stalls(*MAY_STALL)) / (1 - in_stalls)
        if in_stalls < NOTICED:
            return StallFactors(mean=mean)
        waits = self.timeline.share(*MAY_STALL)
        rest = 1 - waits.mean
        return StallFactors(mean=mean, shorter=rest / (1 - waits.lower), longer=rest / (1 - min(waits.upper, 0.99)))

    @property
    def evidence(self) -> StepsSeen:
        """Return the evidence that the shares rest on."""
        return self.timeline.evidence

    @property
    def data_evidence(self) -> StepsSeen:
        """Return the evidence about waits for data. If the job has more data, it is limited by the trials' examples."""
        known, distinct = self.evidence, self.observed.get("distinct_steps")
        if not isinstance(distinct, int) or distinct >= min(known.steps, self.observed.get("epoch_steps") or 0):
            return known
        return replace(known, steps=distinct, limit="the trials' data hold no more, and the job's do")

    def sees_stalls(self, evidence: StepsSeen) -> bool:
        """Return whether `evidence` would have met stalls as rare as one in `rarest_stall` steps."""
        return evidence.steps >= steps_to_see(self.rarest_stall)


def baseline_facts(
    record: ComparisonRecord,
    every: Sequence[Steps] = (),
    rarest_stall: int = 500,
    with_job: Callable[[FirstReads], FirstReads] = lambda found: found,
) -> RunFacts | None:
    """Return the facts in an A/A record; None if it holds no blocks.

    Shares come from `every` step of the baseline that is known, or else from the record's own steps; not from launches
    that were held up, nor from steps whose files were in memory where the job's are not. `with_job` adds what is known
    of the job's files.
    """
    blocks = record.blocks
    if not blocks:
        return None
    own = record.steps
    quiet = not_held_up(every or own)
    read, steps = as_in_job(quiet, with_job)
    facts = _facts(blocks, own, steps, record.baseline.observed, rarest_stall)
    waits = [arm.first_wait for arm in (record.baseline, record.treatment) if arm.first_wait is not None]
    return replace(
        facts,
        was_held_up=any(one not in quiet for one in own if len(one)),
        first_reads=read,
        first_wait=max(waits, default=None),
    )


def changed_facts(record: ComparisonRecord, rarest_stall: int) -> RunFacts:
    """Return the facts about the changed run of a comparison that has pairs."""
    changed = record.treatment
    return _facts(
        [pair.treatment for pair in record.pairs], changed.steps, changed.steps, changed.observed, rarest_stall
    )


def _facts(
    blocks: Sequence[Block],
    own: Sequence[Steps],
    every: Sequence[Steps],
    observed: dict[str, object],
    rarest_stall: int,
) -> RunFacts:
    """Return the facts that `blocks`, their `own` steps and `every` step that is known tell about one run."""
    return RunFacts(
        blocks=blocks,
        own_steps=own,
        timeline=timeline(every),
        throughput=throughput(blocks),
        length=mean_length(blocks, observed),
        flops=flops_of(blocks, observed),
        observed=observed,
        rarest_stall=rarest_stall,
    )


def flops_of(blocks: Sequence[Block], observed: dict[str, object]) -> TokenFlops | None:
    """Return the FLOPs a token of these blocks, at their mean length; None without tokens or sizes of the model."""
    length = mean_length(blocks, observed)
    return token_flops(observed, length) if length else None


def periodic_event_shares(settings: Settings, blocks: Sequence[Block], events: EventRecord) -> dict[str, float | None]:
    """Return the share of the job's time, 0 to 1, that each rare periodic event takes.

    The longest occurrence but the first counts. None where the event was not measured, or where it is not known how
    often it comes.
    """
    known = _event_seconds_per_step(settings, blocks, events)
    most = _of_job({event: alone and alone.most for event, alone in known.items()}, blocks)
    return {event: most.get(event) for event in known}


def events_alone(settings: Settings, blocks: Sequence[Block], events: EventRecord) -> dict[str, Interval]:
    """Return the share of the job's time, 0 to 1, that each rare periodic event takes, where it was measured.

    The interval reaches from the shortest to the longest occurrence, the first one aside. If there was only one, the
    interval is as wide as that of a profile of few steps.
    """
    known = {
        event: replace(alone, least=alone.least / by, most=alone.most * by)
        for event, alone in _event_seconds_per_step(settings, blocks, events).items()
        if alone and (by := SHORT_PROFILE_ERROR if len(events.seconds[event]) == 1 else 1.0)
    }
    ends = [
        _of_job({event: getattr(alone, end) for event, alone in known.items()}, blocks)
        for end in ("mean", "least", "most")
    ]
    return {
        event: Interval(mean=mean, lower=min(lower, mean), upper=max(upper, mean), p=1.0, n=len(events.seconds[event]))
        for event, (mean, lower, upper) in ((event, [one[event] for one in ends]) for event in known)
    }


def _event_seconds_per_step(
    settings: Settings, blocks: Sequence[Block], events: EventRecord
) -> dict[str, EventSeconds | None]:
    """Return what each rare periodic event takes, in seconds for each step from one to the next; None if unknown."""
    found: dict[str, EventSeconds | None] = {}
    for event in (e for e in EVENTS if is_rare(settings.run, e)):
        known = event_seconds(settings.run, events, event)
        between = steps_between(settings.run, event, samples_per_step(blocks))
        found[event] = known.per_step(between) if known and between else None
    return found


def _of_job(each_step: Mapping[str, float | None], blocks: Sequence[Block]) -> dict[str, float]:
    """Return the shares of the job's time, 0 to 1, of events that take so many seconds for each step."""
    known = {event: seconds for event, seconds in each_step.items() if seconds is not None}
    whole = seconds_per_step(blocks) + sum(known.values())
    return {event: seconds / whole for event, seconds in known.items()}


def mean_length(blocks: Sequence[Block], observed: dict[str, object]) -> float | None:
    """Return the mean positions a sequence, padding included; None where there are no tokens."""
    padded = [b.work.padded_tokens for b in blocks]
    sequences = sum(b.steps for b in blocks) * samples_of_step(observed)
    known = observed.get("per_device_train_batch_size") and None not in padded
    return sum(padded) / sequences if sequences and known else None
