"""The lab, which notebooks work with. It reads the evidence of an investigation, and has what is missing measured.

A question that is asked twice has the same answer twice: a record is measured once, and a cell that is run again
changes nothing.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, TypeVar

from slowstep.audit import Audit
from slowstep.audit.model_sizes import audited
from slowstep.audit.terminal_lines import answer
from slowstep.environment.own_code import judging_code
from slowstep.factors import Arm, Contrast, comparison_families, comparison_family, plan_all
from slowstep.investigation import minutes
from slowstep.investigation.evidence import Evidence
from slowstep.investigation.order import least_seconds, most_promising_first
from slowstep.investigation.permission import allowed_by, supported
from slowstep.investigation.record_specs import UNFINISHED, RecordSpec
from slowstep.investigation.results import AUDITED, Audited, Baseline, Decision, Measured, PlanRun, Summary
from slowstep.investigation.spending import Spending
from slowstep.investigation.together import next_comparisons
from slowstep.judgement.comparison import FEWEST_PAIRS, aa_offset, change
from slowstep.judgement.judge import before_trial
from slowstep.judgement.suspects import Suspect
from slowstep.judgement.verdict import Outcome, Verdict, span
from slowstep.judgement.verdicts_together import holm, reconsidered
from slowstep.measure.measurer import LOOKED_AT_SECONDS, OVERTIME, Measurer
from slowstep.measure.progress import Progress
from slowstep.records import ObservationRecord, Pair, ProfileRecord, identity
from slowstep.settings import Loaded, Settings
from slowstep.settings.errors import Sentence
from slowstep.settings.sections import FINAL, TESTED_SECTIONS
from slowstep.text.shown import Shown

T = TypeVar("T")

PLAN = "plan"
"""The name of a lab that pursues the plan of all notebooks."""

Watch = Callable[[Progress], None]
"""A function that is told the progress of a comparison."""

LATE_PROFILE_FACTOR = 3
"""The multiple of the seconds kept for the profile that it may take where the minutes are over. Where a busy machine
has used them up, a launch lasts longer than the first one did."""


class Interrupted(KeyboardInterrupt):
    """A measurement that the user ended. A notebook shows the text alone."""

    _render_traceback_ = Sentence._render_traceback_


class Lab(Shown):
    """The investigation as one notebook uses it: its evidence, and a measurer, or None if records are only read."""

    def __init__(
        self,
        loaded: Loaded,
        evidence: Evidence,
        measurer: Measurer | None,
        notebook: str = "",
        *,
        watch: Watch = lambda progress: None,
        describe: Callable[[], None] = lambda: None,
        shared: bool = False,
    ):
        self.loaded, self.evidence, self.measurer, self.notebook = loaded, evidence, measurer, notebook
        self.settings: Settings = loaded.settings
        self.folder, self.machine = evidence.folder, evidence.machine
        self.spending = Spending(evidence, measurer)
        self._watch, self._describe = watch, describe
        self._shared = shared
        """True if other labs go on with the measurer, and with the trials that it keeps."""
        self._families: dict[str, dict[str, Measured]] = {}
        self._judged: dict[str, Measured] = {}
        """What was measured of the plan and has been judged, by name, for what is to be combined."""

    def close(self) -> None:
        """End every trial that no other lab goes on with."""
        if self.measurer is not None and not self._shared:
            self.measurer.close()

    # -- records --

    def read_or_measure(self, spec: RecordSpec[T]) -> T | None:
        """Return a record; one that is missing is measured and kept. NotMeasured if there is no measurer.

        None if the measurer can't measure it now.
        """
        found = self.evidence.read(spec)
        if found is None and self.measurer is None:
            return self.evidence.require(spec)
        if found is None:
            spec = self._going_on(spec)
            try:
                found = spec.measure(self.measurer, self._progress_callback(spec))
            except KeyboardInterrupt:
                raise Interrupted("interrupted; finished comparisons are kept: run the cell again to go on") from None
            if found is not None:
                self._keep(spec, found)
        return found

    def _going_on(self, spec: RecordSpec[T]) -> RecordSpec[T]:
        """Return a spec that goes on from what fewer minutes left undecided; on a cluster, as it is: nodes differ."""
        on_cluster = self.settings.measure.slurm is not None
        return spec if on_cluster else spec.going_on(self.evidence.store, self.evidence.environment)

    def _keep(self, spec: RecordSpec[Any], found: Any) -> None:
        """Write a record, with the environment that it was measured in."""
        if any(field.name == "environment" for field in fields(found)):
            found = replace(found, environment=self.evidence.environment)
        key = spec.key(self.evidence.environment)
        self._describe()
        self.evidence.store.write(found, spec.folder, key, about={"name": spec.title})
        if spec.pairs_before:
            self.evidence.store.drop(UNFINISHED, key)

    def _progress_callback(self, spec: RecordSpec[Any]) -> Callable[[Sequence[Pair]], None]:
        began = time.monotonic()

        def report(pairs: Sequence[Pair]) -> None:
            known = spec.pairs_before
            new, most = len(pairs) - known, spec.max_pairs - known
            left = self._most_left(new, most, time.monotonic() - began) if new > 0 else None
            progress = Progress(
                notebook=self.notebook,
                comparison=spec.title,
                pair=len(pairs),
                of=spec.max_pairs,
                estimate=span(change(pairs)) if len(pairs) >= FEWEST_PAIRS else "",
                began=began,
                remaining=left,
            )
            self._watch(progress)

        report([])
        return report

    def _most_left(self, pairs: int, most: int, elapsed: float) -> float:
        """Return the most seconds that a comparison still takes: at its deadline it ends as soon as it may."""
        each, until = elapsed / pairs, self.measurer.deadline - time.monotonic() if self.measurer else math.inf
        return min(each * (most - pairs), max(until, each * (FEWEST_PAIRS - pairs), 0.0))

    # -- the baseline --

    @cached_property
    def baseline(self) -> Baseline:
        """The measured baseline: where its time goes, how noisy it is, what it costs. Unmeasurable if it can't be."""
        if self.measurer is not None:
            for spec in self.evidence.missing_of_baseline():
                self.measurer.deadline = time.monotonic() + self._left_for(spec)
                self.read_or_measure(spec)
        return self.evidence.baseline

    def _left_for(self, spec: RecordSpec[Any]) -> float:
        """Return the seconds that a record of the baseline may take.

        The profile has its own in any case: without lines an answer is worth little, however long the rest took.
        """
        left = self.spending.left(minutes.BASELINE_PART)
        if spec.record_type is ObservationRecord:
            return left - self._for_first_profile
        return max(left, LATE_PROFILE_FACTOR * self._for_first_profile) if spec.record_type is ProfileRecord else left

    @property
    def _launch_seconds(self) -> float:
        """The seconds that a launch of the baseline takes."""
        return sum(self.evidence.noise.baseline.startup.values())

    @property
    def _for_first_profile(self) -> float:
        """The seconds that are kept for the profile, which names the lines: a launch, and twice its looks."""
        return self._launch_seconds + 2 * LOOKED_AT_SECONDS

    @property
    def _known(self) -> Evidence:
        """The evidence, with the baseline measured: bounds and lengths of blocks rest on it."""
        _ = self.baseline
        return self.evidence

    @property
    def arm(self) -> Arm:
        """The run as the parameter file describes it."""
        return self.evidence.arm

    def profile(self, arm: Arm) -> ProfileRecord:
        """Return the profile of `arm`, which shows where its time goes. The profiled trial is never judged."""
        return self.read_or_measure(self.evidence.profile_spec(arm))

    @property
    def suspects(self) -> list[Suspect]:
        """The phases in which the baseline loses time, whatever the cause."""
        return self._known.suspects

    @cached_property
    def audit(self) -> Audit:
        """The audit of the figures in the `reported` section. Nothing is trained for it."""
        sizes = self.measurer.model_sizes if self.measurer else None
        found = audited(self.settings, self.evidence.store, sizes, self.evidence.environment.versions)
        if self.measurer is not None:
            self.keep_audit(found)
        return found

    def keep_audit(self, found: Audit) -> None:
        """Keep what an audit found, for the index."""
        self.evidence.store.write(Audited(answer=answer(found)), *AUDITED)

    # -- hypotheses --

    def rank(self) -> list[Verdict]:
        """Return what is known of every listed level before its trial, most promising first."""
        contrasts = {c.name: c for c in plan_all(self.settings, self.machine)}
        return [self._known.prior(c) for c in most_promising_first(list(contrasts.values()), self._known)]

    def test(self, section: str) -> list[Verdict]:
        """Return the verdicts on all levels that a section of the file lists, by bound or by trial.

        The most promising comes first. What the last notebook has measured again stands as fresh pairs leave it.
        """
        found = self.judge(comparison_family(self.settings, section, self.machine), section)
        return reconsidered([m.verdict for m in found], self._again)

    def judge(self, contrasts: Sequence[Contrast], name: str, purpose: str = "") -> list[Measured]:
        """Return the verdict on each contrast, corrected by Holm's method.

        All comparisons that the family `name` holds so far count. Contrasts that a bound refutes are not measured,
        unless the budget is exhaustive. With another `purpose`, new pairs are measured.
        """
        self._measure_ceilings(contrasts)
        found, many = [], len(contrasts) + self._others(name, [c.name for c in contrasts])
        for contrast in most_promising_first(contrasts, self._known):
            prior = self.evidence.prior(contrast)
            known = self._was_measured(contrast, purpose)
            unknown = self.measurer is None and not known
            asked = name in TESTED_SECTIONS and not known
            late = asked and not self._is_time_for(contrast, self.spending.left(self.for_hypotheses))
            if self._needs_no_trial(contrast, prior, known or bool(purpose)):
                found.append(Measured(contrast=contrast, verdict=prior, record=None))
            elif unknown or late:
                found.append(Measured(contrast=contrast, verdict=self._not_reached(prior), record=None))
            else:
                part = 1.0 if purpose else self.for_hypotheses
                found.append(self._measure(contrast, prior, part, comparisons=many, purpose=purpose))
        return self.keep(found, name)

    def _needs_trial(self, contrast: Contrast, left: float) -> bool:
        """Return whether a contrast of the plan is measured in the seconds `left`: nothing else has decided it."""
        known = self._was_measured(contrast, "")
        if known or self._needs_no_trial(contrast, self.evidence.prior(contrast), measured=False):
            return False
        return self._is_time_for(contrast, left)

    def _is_time_for(self, contrast: Contrast, left: float) -> bool:
        """Return whether a hypothesis may be begun: the least seconds that it takes are left, or nearly (`OVERTIME`).

        The first one is begun in any case.
        """
        if left <= 0 or math.isinf(left) or not self._judged:
            return left > 0
        return least_seconds(contrast, self._known) <= left + OVERTIME * 60 * (self.settings.budget.minutes or 0.0)

    def _needs_no_trial(self, contrast: Contrast, prior: Verdict, measured: bool) -> bool:
        """Return whether a hypothesis is judged without its trial: it can't be tested, or a bound refutes it.

        A comparison that was `measured`, or is measured once more, counts and not its bound.
        """
        anyway = self.settings.budget.exhaustive or measured
        refuted = prior.outcome is Outcome.REFUTED and not (anyway and not contrast.unmet)
        return refuted or prior.outcome is Outcome.NOT_TESTABLE

    def pursue(self) -> PlanRun:
        """Measure the hypotheses of all notebooks, the most promising first, until the minutes for them are over.

        The notebooks find the records, and say of the rest that it was not reached.
        """
        began, before = self.spending.elapsed(), self.spending.totals()
        families = comparison_families(self.settings, self.machine)
        waiting = {c.name: (c, len(family)) for family in families for c in family}
        try:
            while waiting and (left := self.spending.left(self.for_hypotheses)) > 0:
                nodes = self.measurer.nodes if self.measurer else 1
                needs_trial = functools.partial(self._needs_trial, left=left)
                self._measure_together(next_comparisons(waiting, self._known, needs_trial, left, nodes))
        finally:  # however it ends, its time is spent
            spent = self.spending.keep_of_plan(began, before)
        return spent

    def compare(self, contrast: Contrast, name: str, comparisons: int = 1, combines: bool = True) -> Measured:
        """Return a contrast's verdict outside of a comparison family: a combination with and without a change, say.

        It is measured until it would be told from chance as one of so many `comparisons`. A comparison that `combines`
        changes may take all of the minutes, any other only those of single hypotheses.
        """
        prior = replace(before_trial(contrast, None, 0.0, None), name=name)
        if prior.outcome is Outcome.NOT_TESTABLE:
            return Measured(contrast=contrast, verdict=prior, record=None)
        part = 1.0 if combines else self.for_hypotheses
        if not (self._is_time_left(part) or self._was_measured(contrast, "")):
            return Measured(contrast=contrast, verdict=self._not_reached(prior), record=None)
        return self._measure(contrast, prior, part, name, comparisons)

    def _is_time_left(self, part: float) -> bool:
        """Return whether something may still be measured in a part of the minutes (`budget.minutes`)."""
        return self.settings.budget.minutes is None or (self.measurer is not None and self.spending.left(part) > 0)

    def is_time_to_profile(self) -> bool:
        """Return whether another profile can come to its end in the minutes: after a launch, as long as the first."""
        first = self.baseline.facts.profile
        took = max(first.took, first.seconds + LOOKED_AT_SECONDS) if first else 0.0
        return self.measurer is not None and self.spending.left(1.0) > self._launch_seconds + took

    def keep(self, found: Sequence[Measured], name: str) -> list[Measured]:
        """Put what was measured among the notebook's verdicts, as a part of the comparison family `name`.

        The verdicts are corrected together, for the number of all that are in the family by now: each try counts.
        """
        corrected = holm([m.verdict for m in found], others=self._others(name, [m.verdict.name for m in found]))
        kept = [replace(m, verdict=v, family=name) for m, v in zip(found, corrected, strict=True)]
        self._families.setdefault(name, {}).update({m.verdict.name: m for m in kept})
        return kept

    def _others(self, family: str, names: Sequence[str]) -> int:
        """Return the comparisons of a family that were measured before those of `names`, however often it is asked."""
        known = self._families.get(family, {})
        before = itertools.takewhile(lambda name: name not in names, known)
        return sum(known[name].verdict.effect is not None for name in before)

    @property
    def found(self) -> list[Measured]:
        """All that this notebook has judged, by comparison family, by the pairs of each comparison alone."""
        return [m for found in self._families.values() for m in found.values()]

    @property
    def measured(self) -> list[Measured]:
        """All that this notebook has judged as it stands after fresh pairs, which every page tells alike."""
        verdicts = reconsidered([m.verdict for m in self.found], self._again)
        return [replace(m, verdict=v) for m, v in zip(self.found, verdicts, strict=True)]

    @property
    def _again(self) -> list[Verdict]:
        """The verdicts of the last notebook on this run, if it has concluded: some are on fresh pairs."""
        said = self.evidence.store.read(Summary, "summaries", FINAL.notebook)
        own = (identity(self.arm.determinants()), identity(self.evidence.environment.determinants))
        return said.verdicts if said and (said.arm, said.environment) == own else []

    def cells(self, family: str, *factors: str) -> list[Measured]:
        """Return what was measured of a comparison family and changes `factors` alone: the cells of their matrix."""
        wanted = set(factors)
        return [m for m in self.measured if m.family == family and {f.name for f, _ in m.contrast.levels} <= wanted]

    def conclude(self, decision: Decision | None = None) -> Summary:
        """Keep this notebook's verdicts for the index and the final configuration, and end its trials."""
        store = self.evidence.store
        _, arm = self.baseline, identity(self.arm.determinants())  # it is measured before its time is counted
        spent = self.spending.count(self.notebook)
        summary = Summary(
            notebook=self.notebook,
            verdicts=[m.verdict for m in self.found],
            arm=arm,
            environment=identity(self.evidence.environment.determinants),
            shares=self.baseline.facts.shares,
            suspects=self.suspects,
            courses=list(self.baseline.courses),
            minimum_effect=self.settings.budget.minimum_effect,
            decision=decision,
            noise=self.baseline.noise,
            apart=aa_offset(self.baseline.record),
            fails=self.baseline.fails,
            unprojected=self.baseline.unprojected,
            unprofiled=self.baseline.unprofiled,
            beside=dict(self.baseline.beside),
            epochs_end=self.baseline.epochs_end,
            first_reads=self.baseline.facts.first_reads,
            rests_on=self.baseline.rests_on,
            records=self.evidence.records,
            seconds=spent.seconds,
            measured_seconds=spent.measured_seconds,
            steps=spent.steps,
            code=judging_code(),
        )
        if self.measurer is not None:
            store.write(summary, "summaries", self.notebook)
            minutes.keep_spent(store, self.notebook, self.evidence.run_identity, spent)
        self.close()
        return summary

    def _measure_ceilings(self, contrasts: Sequence[Contrast]) -> None:
        """Measure the cached-batch ceiling before any factor of data loading is judged by it, if there is time."""
        if self.measurer is None or not any(f.bound == "data" for c in contrasts for f, _ in c.levels):
            return
        for ceiling in self._known.ceilings:
            if self.evidence.prior(ceiling).outcome is not Outcome.INCONCLUSIVE:
                continue
            if self._is_time_for(ceiling, left := self.spending.left(self.for_hypotheses)):
                self.measurer.deadline = time.monotonic() + left
                self.read_or_measure(self.evidence.comparison_spec(ceiling, comparisons=len(contrasts)))

    def _measure(
        self,
        contrast: Contrast,
        prior: Verdict,
        part: float,
        title: str = "",
        comparisons: int = 1,
        purpose: str = "",
    ) -> Measured:
        """Measure a contrast, if it is not measured yet, in a part of the minutes, and return its verdict."""
        if self.measurer is not None:
            self.measurer.deadline = time.monotonic() + self.spending.left(part)
        if self.read_or_measure(self._known.comparison_spec(contrast, title, comparisons, purpose)) is None:
            return Measured(contrast=contrast, verdict=self._not_reached(prior), record=None)
        return self.evidence.judged(contrast, prior, title, comparisons, purpose)

    def _measure_together(self, asked: Sequence[tuple[Contrast, int]]) -> None:
        """Measure contrasts of one baseline in the same rounds; each is one of so many comparisons."""
        specs = [self._known.comparison_spec(contrast, comparisons=comparisons) for contrast, comparisons in asked]
        specs = [self._going_on(spec) for spec in specs]
        if len(specs) < 2:
            for contrast, comparisons in asked:
                prior = self.evidence.prior(contrast)
                self._measure(contrast, prior, self.for_hypotheses, comparisons=comparisons)
            return
        self.measurer.deadline = time.monotonic() + self.spending.left(self.for_hypotheses)
        callbacks = [self._progress_callback(spec) for spec in specs]
        requests = [spec.request for spec in specs]
        for i, record in self.measurer.compare_together(requests, lambda i, pairs: callbacks[i](pairs)):
            self._keep(specs[i], record)

    @property
    def for_hypotheses(self) -> float:
        """The part of the minutes that the baseline and single hypotheses may take: what combining leaves of them."""
        if self.settings.budget.minutes is None or self.measurer is None:
            return 1.0
        _ = self.baseline  # the lengths of blocks rest on it, and so do the records' keys
        families = comparison_families(self.settings, self.machine)
        measured = [c for family in families for c in family if self._was_measured(c, "")]
        for contrast in (c for c in measured if c.name not in self._judged):  # a record never changes
            self._judged[contrast.name] = self.evidence.judged(contrast, self.evidence.prior(contrast))
        found = [self._judged[c.name] for c in measured]
        to_combine = [m for m in found if supported(m) and allowed_by(m, self.settings)]
        return minutes.for_hypotheses(found, to_combine, self.settings.budget.minutes)

    def _not_reached(self, prior: Verdict) -> Verdict:
        """Return the verdict on a hypothesis for which no time was left.

        Where minutes are not counted, or nothing was concluded yet, the verdict stays as it was before.
        """
        if self.settings.budget.minutes is None or not (self.measurer or self.evidence.concluded):
            return prior
        limit = f"{self.settings.budget.minutes:g} minute{'s' * (self.settings.budget.minutes != 1)}"
        known = "" if prior.outcome is Outcome.INCONCLUSIVE else f"; {prior.reason}"  # a bound holds without a trial
        return replace(prior, reason=f"not reached within {limit} (budget.minutes){known}")

    def _was_measured(self, contrast: Contrast, purpose: str) -> bool:
        """Return whether a contrast has a record. If it has, the record counts and not the bound."""
        return self.evidence.read(self.evidence.comparison_spec(contrast, purpose=purpose)) is not None
