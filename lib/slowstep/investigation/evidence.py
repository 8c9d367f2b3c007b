"""The evidence of an investigation: its records of one environment, and what follows from them.

Evidence is read-only. It needs neither torch nor the machine that measured. So records that were copied from there are
judged and drawn in the same way here. What follows from the baseline rests on the baseline's own records, so the order
in which hypotheses are asked about changes nothing in it. One record sharpens the bounds of others once it is there:
the cached-batch ceiling, which the lab has measured before anything of its section is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from slowstep.environment.machine import Machine
from slowstep.factors import CATALOGUE, Arm, Contrast, Meaning, plan_all, touched_by
from slowstep.factors.entries import on_cpu
from slowstep.investigation import record_specs
from slowstep.investigation.early_steps import EarlySteps
from slowstep.investigation.peaks import Peaks
from slowstep.investigation.record_specs import Pacing, RecordSpec
from slowstep.investigation.results import Baseline, Measured, Summary
from slowstep.judgement.block_length import BlockLength, block_length
from slowstep.judgement.comparison import log_ratios, result_of
from slowstep.judgement.course import placed
from slowstep.judgement.devices import Peak
from slowstep.judgement.drift import Drift, drift
from slowstep.judgement.intervals import Interval, launches_weigh
from slowstep.judgement.judge import before_trial, judge
from slowstep.judgement.later_epochs import epochs_end_since
from slowstep.judgement.missed import RunContext
from slowstep.judgement.notes import outgrown, passing
from slowstep.judgement.projection import Projection, project, unknown, unlike_the_job
from slowstep.judgement.remaining import Remaining
from slowstep.judgement.run_facts import (
    MAY_STALL,
    RunFacts,
    baseline_facts,
    changed_facts,
    events_alone,
    periodic_event_shares,
)
from slowstep.judgement.stopping import StopRule
from slowstep.judgement.suspects import PASSES, Suspect, perhaps_suspects, suspects
from slowstep.judgement.throughput import samples_per_step, seconds_per_sample
from slowstep.judgement.timeline import steps_to_see, timeline
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.measure.live_trial import DISCARDED, START_UP
from slowstep.records import (
    PHASES,
    ComparisonRecord,
    Environment,
    EventRecord,
    ObservationRecord,
    Place,
    ProfileRecord,
    Status,
    Steps,
    Store,
    TrialRecord,
    identity,
    steps_of_arm,
)
from slowstep.settings import Settings
from slowstep.settings.convert import from_plain
from slowstep.settings.errors import Sentence

T = TypeVar("T")

CEILING = CATALOGUE["cached_batches"]
"""The factor whose trial shows the most that data loading can bring."""

MEASURED = ("comparisons", "observations", "events", "profiles", "peaks")
"""The folders of records of what was measured."""

NO_ONE_PACE = "its steps keep no one pace, as 00_baseline says"
"""Why a job is not projected if its steps become longer or shorter as it trains."""

FAILED = (Status.CRASHED, Status.OUT_OF_MEMORY, Status.TIMED_OUT, Status.LOSS_NOT_FINITE)
"""How a run that trains by itself fails. If its training ends, that is no failure."""


class Unmeasurable(Sentence, RuntimeError):
    """The error of a baseline that can't be trained, so that nothing can be compared. Its text says why."""


class NotMeasured(Sentence, RuntimeError):
    """The error of a record that is missing, with nothing to measure it. Its text names the record."""


class Evidence:
    """All records of an investigation that were measured in one environment."""

    def __init__(self, settings: Settings, folder: Path, environment: Environment, concluded: Summary | None = None):
        self.settings, self.folder, self.environment = settings, folder, environment
        self.concluded = concluded
        """What a notebook has concluded, if its report is drawn again: records that came later are not looked at."""
        self.store = Store(folder / "records")
        self.machine = from_plain(Machine, environment.machine)
        self.device = "cpu" if on_cpu(settings.run, self.machine) else "cuda"
        self._peaks = Peaks(settings, self.machine, self.device, self.read)
        self.arm = Arm(label="baseline", settings=settings)
        """The baseline: the run as it is."""

    @property
    def run_identity(self) -> str:
        """The identity of the run in its environment, under which is kept what it took."""
        return run_identity(self.arm, self.environment)

    # -- records --

    def read(self, spec: RecordSpec[T]) -> T | None:
        """Return a record; None if it was not measured."""
        name = spec.key(self.environment)
        if self.concluded is not None and f"{spec.folder}/{name}" not in self.concluded.records:
            return None
        return self.store.read(spec.record_type, spec.folder, name)

    def require(self, spec: RecordSpec[T]) -> T:
        """Return a record; NotMeasured if there is none."""
        found = self.read(spec)
        if found is None:
            raise NotMeasured(f"{spec.title} was not measured in {self.folder.name}; measure it where the run trains")
        return found

    def missing_of_baseline(self) -> Iterator[RecordSpec[Any]]:
        """Yield the records that the baseline still needs, one by one. The next one may depend on the last record."""
        for spec_of in (
            self._noise_spec,
            self._observation_spec,
            self._events_spec,
            self._baseline_profile_spec,
            self._peaks.spec,
        ):
            if (spec := spec_of()) is not None and self.read(spec) is None:
                yield spec
        yield from (spec for spec in self._peaks.specs_of_tried(self.noise).values() if self.read(spec) is None)

    def _noise_spec(self) -> RecordSpec[ComparisonRecord]:
        return record_specs.noise(self.settings, self.arm)

    def _observation_spec(self) -> RecordSpec[ObservationRecord] | None:
        if not self.noise.pairs:
            return None
        wanted = steps_to_see(self.settings.budget.rarest_stall)
        known = timeline(self.noise.steps).evidence.steps
        # a few of the steps that are known are no help: those observed may be the same ones, seen again
        return record_specs.observation(self.settings, self.arm, wanted if known < wanted else 0)

    def _events_spec(self) -> RecordSpec[EventRecord] | None:
        return record_specs.events(self.arm) if self.noise.pairs else None

    def _baseline_profile_spec(self) -> RecordSpec[ProfileRecord] | None:
        return self.profile_spec(self.arm) if self.noise.pairs else None

    def profile_spec(self, arm: Arm) -> RecordSpec[ProfileRecord]:
        """Return the spec of a profile of `arm`: of later steps where those of the baseline grow longer.

        A profile of earlier steps that was measured before that was known serves as well.
        """
        first = record_specs.profile(arm, self.folder / "traces")
        if arm != self.arm or not any(one.grows for one in self._early.courses):
            return first
        late = record_specs.profile(arm, self.folder / "traces", round(2 / 3 * self._early.last_position))
        return first if self.read(late) is None and self.read(first) is not None else late

    @property
    def noise(self) -> ComparisonRecord:
        """The A/A comparison: the baseline against other launches of itself."""
        return self.require(self._noise_spec())

    @property
    def observation(self) -> ObservationRecord | None:
        """The baseline trained by itself, to meet stalls as rare as the budget asks for."""
        spec = self._observation_spec()
        return spec and self.require(spec)

    @property
    def events(self) -> EventRecord:
        """The periodic events of the baseline: what saving and evaluating cost."""
        spec = self._events_spec()
        return self.require(spec) if spec else EventRecord(seconds={})

    @property
    def peak(self) -> Peak | None:
        """The peak of the device: by its data sheet if its name is known, else as it was measured."""
        return self._peaks.own

    @property
    def records(self) -> list[str]:
        """The records that are looked at, by folder and name: all that there are now, or that there were."""
        if self.concluded is not None:
            return self.concluded.records
        return [f"{kind}/{name}" for kind in MEASURED for name in self.store.names(kind)]

    def _steps(self) -> dict[str, list[Steps]]:
        among = None if self.concluded is None else self.concluded.rests_on
        arm = identity(self.arm.determinants())
        return steps_of_arm(self.store, arm, self.environment, among, self.noise.node)

    # -- the baseline --

    @cached_property
    def baseline(self) -> Baseline:
        """The measured baseline: where its time goes, how noisy it is, what it costs. Unmeasurable if it can't be."""
        record, steps = self.noise, self._steps()
        every = [one for of_record in steps.values() for one in of_record]
        facts = baseline_facts(record, every, self.settings.budget.rarest_stall, self._early.with_job)
        if facts is None:
            raise Unmeasurable(f"the baseline can't be trained: {self._why_not(record)}")
        profile, observed = self.require(self._baseline_profile_spec()), self.observation
        alone = events_alone(self.settings, facts.blocks, self.events)
        facts = replace(
            facts,
            periodic_events=periodic_event_shares(self.settings, facts.blocks, self.events),
            events_alone=alone,
            peak_flops=self._peaks.flops(record.baseline),
            other_peaks=self._peaks.flops_of_tried(record),
            product_rate=self._peaks.product_rate(self.settings, self.peak and self.peak.most),
            profile=None if profile.failed else profile,
            places=[*profile.places, *self._places_of_events(alone)],
            on_nodes=self.settings.on_nodes,
            drift=self._drift(steps),
        )
        return Baseline(
            record=record,
            facts=facts,
            rests_on=list(steps),
            reading=result_of(record.pairs),
            peak=self.peak,
            unobserved=observed.trial.failure if observed else "",
            unprofiled=profile.failed,
            beside=profile.beside,
            block_length=self.block_length,
            courses=[placed(one, profile, together=self.settings.ranks > 1) for one in self._early.courses],
            projection=None if self._early.change_pace else self._job(facts, self.settings),
            unprojected=self._unprojected(facts),
            fails=self._fails(record, observed),
            epochs_end=epochs_end_since(self.settings.run, [record.baseline, *([observed.trial] if observed else [])]),
        )

    def _drift(self, steps: Mapping[str, Sequence[Steps]]) -> Drift:
        """Return how far the speed of the baseline at other moments lay from that of the A/A comparison."""
        own = f"comparisons/{self._noise_spec().key(self.environment)}"
        return drift(self.noise.steps, [launches for record, launches in steps.items() if record != own])

    def _unprojected(self, facts: RunFacts) -> str:
        """Return why the job is not projected, as a clause; an empty text if it is."""
        if self._early.change_pace:
            return NO_ONE_PACE
        return unknown(self.settings, self.noise) or unlike_the_job(facts)

    def _fails(self, noise: ComparisonRecord, observed: ObservationRecord | None) -> str:
        """Return how the run failed against itself, or else by itself, as a clause; an empty text if it did not."""
        failed = _failed(noise) or (observed.trial if observed and observed.trial.status in FAILED else None)
        if failed is None:
            return ""
        seen = [max(steps.position) for steps in failed.steps if steps]  # of the last launch it is where it failed
        step = samples_per_step(self.noise.blocks)
        after = f" after about {round(seen[-1] / step) + 1:,} steps" if seen and step else ""
        return f"the run itself {'ends' if failed.status is Status.ENDED else 'fails'}{after} ({failed.failure})"

    def _why_not(self, record: ComparisonRecord) -> str:
        failed = _failed(record)
        return f"{failed.failure} (log: {self.store.folder / 'logs' / failed.log})" if failed else "it gave no blocks"

    @cached_property
    def _early(self) -> EarlySteps:
        return EarlySteps(self.settings, self.machine.memory, self.noise, self.observation)

    def projected(self, change: Measured) -> Projection | None:
        """Return the job after a change; None if its size is not known, or if its steps keep no one pace."""
        return None if self._early.change_pace else self.at_one_pace(change)

    def at_one_pace(self, change: Measured | None) -> Projection | None:
        """Return the job, or that after a change, as if its steps kept the pace that was measured."""
        if change is not None:
            return self._job(self.baseline.facts, change.contrast.treatment.settings, change.record)
        return self._job(self.baseline.facts, self.settings)

    def _job(self, facts: RunFacts, settings: Settings, change: ComparisonRecord | None = None) -> Projection | None:
        """Return the job of `settings`; None where the A/A comparison does not show the job's seconds.

        Stalls that the blocks missed count before a change and after it alike. A change that removes stalls shows that
        in its pairs, as far as these met any.
        """
        if unlike_the_job(facts):
            return None
        return project(settings, self.noise, self.events, change, facts.stall_factors, facts.drift)

    @property
    def stall_samples(self) -> float:
        """The mean number of samples from one stall to the next; 0 if stalls take less than half the minimum effect."""
        return self._early.stall_samples

    @cached_property
    def _sample_seconds(self) -> float:
        """The mean seconds of a sample in the A/A comparison; 0 if it has no pairs."""
        return seconds_per_sample(self.noise.blocks)

    @cached_property
    def block_length(self) -> BlockLength | None:
        """The length of blocks that follows from the A/A comparison; None if the budget says it, or if that fails."""
        record = self.noise
        if self.settings.budget.block_seconds is not None or not record.pairs:
            return None
        between = (DISCARDED, START_UP) if record.by_turns else (DISCARDED,)
        spent = sum(trial.wall.get(part, 0.0) for trial in (record.baseline, record.treatment) for part in between)
        budget = self.settings.budget
        turn = spent / (2 * len(record.pairs))
        return block_length(record.pairs, turn, budget.minimum_effect, budget.block_steps_min)

    @cached_property
    def launches_weigh(self) -> bool:
        """True if the offset of one launch would widen an interval noticeably, given how the A/A pairs scatter."""
        pairs = self.noise.pairs
        return launches_weigh(log_ratios(pairs), [0] * len(pairs), StopRule.launch_share)

    @cached_property
    def _stalling(self) -> dict[str, float]:
        """The phases in which the baseline stalls now and then, with the share of its time that it spends there."""
        facts, least = self.baseline.facts, self.settings.budget.minimum_effect / 2
        return {p: facts.share(p) for p in MAY_STALL if facts.timeline.spacing([p], least) > 1}

    @property
    def suspects(self) -> list[Suspect]:
        """The phases in which the baseline loses time, whatever the cause."""
        return suspects(self.baseline.facts, self.settings.budget.minimum_effect)

    def _places_of_events(self, alone: Mapping[str, Interval]) -> list[Place]:
        """Return the lines of code of events that were measured alone, as shares of the job's time, 0 to 1."""
        found = [(place, alone[event].mean) for event in alone for place in self.events.places.get(event, [])]
        return [replace(place, share=of * place.share, together=of * place.together) for place, of in found]

    def remaining(self, change: Measured) -> Remaining | None:
        """Return what a measured change still loses; None where no profile of the changed run tells that."""
        arm, record = change.contrast.treatment, change.record
        profile = self.read(self.profile_spec(arm))
        if not (record and record.pairs and change.verdict.effect and profile) or profile.failed:
            return None
        peak = self._peaks.flops_of_change(change, self.baseline.facts)
        facts = replace(
            changed_facts(record, self.settings.budget.rarest_stall),
            peak_flops=peak,
            product_rate=self._peaks.product_rate(arm.settings, peak),
            profile=profile,
            places=profile.places,
            on_nodes=arm.settings.on_nodes,
        )
        told_by_peak = self.baseline.facts.peak_flops is None or facts.peak_flops is not None
        read = self.baseline.facts.first_reads
        unseen = {*(() if told_by_peak else PASSES), *((read.phase,) if read and read.matters else ())}
        unseen |= self.baseline.facts.events_alone.keys()
        return Remaining(
            overrides=change.verdict.overrides,
            ratio=change.verdict.effect.ratio,
            looked_at=[phase for phase in PHASES if phase not in unseen],
            suspects=suspects(facts, self.settings.budget.minimum_effect),
            perhaps=perhaps_suspects(facts, self.settings.budget.minimum_effect),
            missed="" if facts.sees_stalls(facts.evidence) else facts.evidence.missed,
        )

    # -- hypotheses --

    def comparison_spec(
        self, contrast: Contrast, title: str = "", comparisons: int = 1, purpose: str = ""
    ) -> RecordSpec[ComparisonRecord]:
        """Return the spec of a contrast's comparison."""
        name = title or contrast.name
        own = contrast.baseline.determinants() == self.arm.determinants()  # of another baseline no pace is known
        pacing = Pacing(
            least_samples=self.stall_samples,
            block_seconds=self.block_length.seconds if self.block_length else None,
            sample_seconds=self._sample_seconds if own else 0.0,
        )
        return record_specs.contrast(self.settings, contrast, name, comparisons, purpose, pacing)

    def prior(self, contrast: Contrast) -> Verdict:
        """Return what is known of a contrast before its trial."""
        facts = replace(self.baseline.facts, cached_batch_ceiling=self._cached_batch_ceiling(contrast))
        least = contrast.minimum_effect(self.settings.budget.minimum_effect)
        return before_trial(contrast, facts, least, self.epoch_samples)

    @property
    def epoch_samples(self) -> int | None:
        """Return the samples of an epoch: the job's, or else those that a survey saw; None if neither is known."""
        return self.settings.job.samples or self.settings.run["job.samples"]

    def judged(
        self, contrast: Contrast, prior: Verdict, title: str = "", comparisons: int = 1, purpose: str = ""
    ) -> Measured:
        """Return the verdict on a contrast that was measured; NotMeasured if it was not."""
        record = self.require(self.comparison_spec(contrast, title, comparisons, purpose))
        device = str(record.baseline.observed.get("device", self.device))
        least = contrast.minimum_effect(self.settings.budget.minimum_effect)
        context = RunContext(stalls=self._stalling, noise=self.noise, reads=self.baseline.facts.first_reads)
        verdict = judge(prior, contrast, record, least, device, context)
        passes = [one for one in self._early.courses if not (one.grows or one.once)]
        warned = [passing(one) for one in passes if _touches(contrast, one.phase)]
        if verdict.effect and verdict.effect.lower > 0:
            grown = [one for one in self._early.courses if one.grows and not _touches(contrast, one.phase)]
            warned += [outgrown(grown)] if grown else []
        verdict = replace(verdict, node=record.node, warnings=[*verdict.warnings, *warned])
        return Measured(contrast=contrast, verdict=verdict, record=record)

    @cached_property
    def ceilings(self) -> list[Contrast]:
        """The contrasts of listed levels that show a limit: the cached-batch ceiling."""
        every = plan_all(self.settings, self.machine)
        return [c for c in every if c.meaning is Meaning.DIAGNOSTIC and any(f is CEILING for f, _ in c.levels)]

    def _cached_batch_ceiling(self, contrast: Contrast) -> Interval | None:
        """Return the cached-batch ceiling; None if it was not measured, or if the contrast itself shows a limit."""
        if contrast.meaning is Meaning.DIAGNOSTIC:
            return None
        for one in self.ceilings:
            if self.read(self.comparison_spec(one)) is not None:
                verdict = self.judged(one, self.prior(one)).verdict
                if verdict.outcome in (Outcome.SUPPORTED, Outcome.REFUTED):
                    return verdict.effect
        return None


def run_identity(arm: Arm, environment: Environment) -> str:
    """Return the identity of a run in its environment."""
    return identity(arm.determinants(), environment.determinants)


def _touches(contrast: Contrast, phase: str) -> bool:
    return any(phase in touched_by(factor.name) for factor, _ in contrast.levels)


def _failed(record: ComparisonRecord) -> TrialRecord | None:
    """Return the trial that failed in a comparison; None if none did."""
    return next((t for t in (record.baseline, record.treatment) if t.status is not Status.OK), None)
