"""An investigation: settings, factors, trials, records and judgement put together, for notebooks to call."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from slowstep import __version__
from slowstep.audit import Audit
from slowstep.auditing import audited
from slowstep.factors import Arm, Contrast, Meaning, check_levels, family, plan
from slowstep.judgement.comparison import LOOKS, change, reading
from slowstep.judgement.devices import MEASURED, Peak, peak_of
from slowstep.judgement.facts import WAITS, baseline_facts, periodic_event_shares
from slowstep.judgement.intervals import Interval
from slowstep.judgement.projection import project
from slowstep.judgement.suspects import Suspect, suspects
from slowstep.judgement.timeline import steps_to_see, timeline
from slowstep.judgement.verdict import Outcome, Verdict, before_trial, enough, holm, judge, span
from slowstep.launch.entry import enter_peak
from slowstep.launch.run_in_subprocess import run_in_subprocess
from slowstep.launch.trial_process import context
from slowstep.machine import this_machine, versions
from slowstep.measure.progress import Progress, to_file
from slowstep.measure.session import Session
from slowstep.records import (
    ComparisonRecord,
    EventRecord,
    ObservationRecord,
    Pair,
    ProfileRecord,
    Status,
    Steps,
    Store,
    TrialRecord,
    identity,
    steps_of_arm,
)
from slowstep.settings import LEVEL_SECTIONS, Loaded, Settings, SettingsError, load
from slowstep.settings.convert import to_plain
from slowstep.summary import Baseline, Measured, Summary

ROOT = Path(__file__).resolve().parents[2]
"""The kit's folder: notebooks/, params/ and outputs/ lie in it."""


class Unmeasurable(RuntimeError):
    """The baseline itself can't be trained, so nothing can be compared; the text says why."""


def open_investigation(
    params: str, overrides: Sequence[str] = (), outputs: str = "", notebook: str = ""
) -> Investigation:
    """The investigation of a parameter file (looked for here, then in params/), with values overridden."""
    context()  # the fork server imports torch while the notebook imports plotly
    path = next((p for p in (Path(params), ROOT / params, ROOT / "params" / params) if p.is_file()), Path(params))
    loaded = load(path, overrides)
    problems = check_levels(loaded.settings, loaded.source)
    if problems:
        raise SettingsError(problems)
    return Investigation(loaded, Path(outputs) if outputs else ROOT / "outputs", notebook)


class Investigation:
    """Asks for comparisons by what they compare; each is measured once and kept in the records."""

    def __init__(self, loaded: Loaded, outputs: Path, notebook: str):
        self.loaded, self.notebook = loaded, notebook
        self.settings: Settings = loaded.settings
        self.folder = outputs / self.settings.name
        self.store = Store(self.folder / "records")
        self.machine = this_machine()
        self.device = "cpu" if self.settings.training("use_cpu") else self.machine.device
        self.began = time.monotonic()
        self.measured: list[Measured] = []
        self.ceiling: Interval | None = None
        """What batches ready in memory bring, once that is measured."""
        self._session: Session | None = None
        self._line: Callable[[Progress], None] | None = None

    @property
    def session(self) -> Session:
        """The session, started when something has to be measured."""
        if self._session is None:
            self._session = Session(self.settings.budget, self.folder / "records" / "logs")
        return self._session

    def close(self) -> None:
        """End every trial."""
        if self._session is not None:
            self._session.close()

    # -- the baseline --

    @cached_property
    def arm(self) -> Arm:
        """The run as the parameter file describes it."""
        return Arm(label="baseline", settings=self.settings)

    @cached_property
    def noise(self) -> ComparisonRecord:
        """The A/A comparison: the baseline against other launches of itself."""
        pairs = self.settings.budget.noise_pairs
        return self._comparison("A/A", self.arm, self.arm, pairs, lambda got: False, twin=True)

    @cached_property
    def baseline(self) -> Baseline:
        """The baseline measured: where its time goes, how noisy it is, what it costs."""
        record = self.noise
        failed = next((t for t in (record.baseline, record.treatment) if t.status is not Status.OK), None)
        facts = baseline_facts(record, change(record.pairs), self._every_step(), self.settings.budget.rarest_stall)
        if facts is None:
            logs = self.folder / "records" / "logs"
            why = f"{failed.status}: {failed.reason} (log: {logs / failed.log})" if failed else "it gave no blocks"
            raise Unmeasurable(f"the baseline can't be trained: {why}")
        profile = self.profile(self.arm)
        facts = replace(
            facts,
            occasional=periodic_event_shares(self.settings, facts.blocks, self.events),
            peak_flops=self.peak.most if self.peak else None,
            profile=None if profile.failed else profile,
        )
        return Baseline(
            record=record,
            facts=facts,
            reading=reading(record.pairs),
            peak=self.peak,
            unobserved=_failure(self.observation.trial),
            unprofiled=profile.failed,
            projection=project(self.settings, record, self.events, stalls=facts.stalls_beyond_blocks),
        )

    @cached_property
    def observation(self) -> ObservationRecord:
        """The baseline trained on by itself, until stalls as rare as the budget asks for would have been met."""
        b = self.settings.budget
        known = timeline(self._noise_steps()).evidence.steps
        steps = max(0, steps_to_see(b.rarest_stall) - known)
        key = identity("observation", self.arm.determinants(), steps, b.observe_seconds, self._place())
        measure = partial(self._observe, steps, b.observe_seconds)
        return self._kept(ObservationRecord, "observations", key, measure)

    def _observe(self, steps: int, seconds: float) -> ObservationRecord:
        self._tell(f"observing {steps} steps", [], 0, time.monotonic())
        return self.session.observe(self.arm, steps, seconds)

    def _noise_steps(self) -> list[Steps]:
        return [*self.noise.baseline.steps, *self.noise.treatment.steps]

    @cached_property
    def _stall_samples(self) -> float:
        """Samples from one stall to the next on the mean, where stalls take a good part of what is asked about.

        From two records alone that are made before any comparison, so that it stays the same.
        """
        steps = timeline([*self._noise_steps(), *self.observation.trial.steps])
        apart = steps.spacing(WAITS, self.settings.budget.minimum_effect / 2)
        blocks = [b for pair in self.noise.pairs for b in (pair.baseline, pair.treatment)]
        samples = sum(b.work.samples for b in blocks) / sum(b.steps for b in blocks) if blocks else 0.0
        return apart * samples if apart > 1 else 0.0

    @cached_property
    def _stalling(self) -> dict[str, float]:
        """The phases in which the baseline stalls now and then, with the share of its time that it spends there."""
        steps, least = self.baseline.facts.timeline, self.settings.budget.minimum_effect / 2
        return {p: self.baseline.facts.share(p) for p in WAITS if steps.spacing([p], least) > 1}

    def _every_step(self) -> list[Steps]:
        """Every steady step of the baseline that any record of the investigation holds; observed now, if need be."""
        if not self.noise.pairs or not self.observation:
            return []
        return steps_of_arm(self.store, identity(self.arm.determinants()), to_plain(self.machine), versions())

    @cached_property
    def events(self) -> EventRecord:
        """What saving and evaluating cost."""
        key = identity("events", self.arm.determinants(), self._place())
        return self._kept(EventRecord, "events", key, lambda: self.session.occasional(self.arm))

    def profile(self, arm: Arm) -> ProfileRecord:
        """Where the operators' time goes in `arm`, by torch.profiler in a trial of its own."""
        key = identity("profile", arm.determinants(), self._place())
        trace = self.folder / "traces" / f"{self.notebook}-{key}.json.gz"
        return self._kept(ProfileRecord, "profiles", key, lambda: self.session.profile(arm, trace))

    @cached_property
    def peak(self) -> Peak | None:
        """What the device could do: from the data sheet if its name is known, else measured for a second."""
        known = peak_of(self.machine.gpu)
        if known and self.device == "cuda":
            return known
        dtype = _computed_in(self.settings)

        def measure() -> Peak:
            tflops, bandwidth, device = run_in_subprocess(enter_peak, dtype)
            return Peak(tflops=tflops, bandwidth=bandwidth, source=f"{MEASURED}: {dtype} matmul on {device}")

        try:
            return self._kept(Peak, "ceilings", identity("ceiling", dtype, self._place()), measure)
        except RuntimeError:  # no memory left beside the trials, say; then MFU is not measured
            return None

    @cached_property
    def audit(self) -> Audit:
        """What the figures of the `reported` section say by themselves; nothing is trained for it."""
        return audited(self.settings, self.store)

    @property
    def suspects(self) -> list[Suspect]:
        """Where the baseline loses time, whatever the cause."""
        facts = self.baseline.facts
        return suspects(facts, self.settings.budget.minimum_effect)

    # -- hypotheses --

    def rank(self) -> list[Verdict]:
        """What is known of every listed level before its trial, most promising first."""
        contrasts = {c.name: c for section in LEVEL_SECTIONS for c in plan(self.settings, section, self.machine)}
        return [self._prior(c) for c in sorted(contrasts.values(), key=self._promise)]

    def test(self, section: str) -> list[Verdict]:
        """A verdict for all that the section of that name asks, by bound or by trial, most promising first."""
        return [m.verdict for m in self.judge(family(self.settings, section, self.machine), section)]

    def judge(self, contrasts: Sequence[Contrast], name: str, purpose: str = "") -> list[Measured]:
        """Verdicts on `contrasts`, corrected together (Holm) as the family `name`; a new `purpose` takes new pairs.

        Contrasts that a bound refutes are not measured, unless the budget is exhaustive.
        """
        found = []
        for contrast in sorted(contrasts, key=self._promise):
            prior = self._prior(contrast)
            anyway = self.settings.budget.exhaustive or self._measured_before(contrast, purpose)
            bounded = prior.outcome is Outcome.REFUTED and not (anyway and not contrast.unmet)
            if bounded or prior.outcome is Outcome.NOT_TESTABLE:
                one = Measured(contrast=contrast, verdict=prior, record=None)
            else:
                one = self._measure(contrast, contrast.name, prior, len(contrasts), purpose)
            found.append(one)
            if contrast.meaning is Meaning.DIAGNOSTIC and one.verdict.outcome in (Outcome.SUPPORTED, Outcome.REFUTED):
                self.ceiling = one.verdict.effect
        return self.keep(found, name)

    def keep(self, found: Sequence[Measured], name: str) -> list[Measured]:
        """Put what was measured among the notebook's verdicts, corrected together (Holm) as the family `name`."""
        corrected = holm([m.verdict for m in found])
        kept = [replace(m, verdict=v, family=name) for m, v in zip(found, corrected, strict=True)]
        self.measured += kept
        return kept

    def cells(self, family: str, *factors: str) -> list[Measured]:
        """What was measured in a family that changes nothing but `factors`: the cells of their matrix."""
        wanted = set(factors)
        return [m for m in self.measured if m.family == family and {f.name for f, _ in m.contrast.levels} <= wanted]

    def compare(self, contrast: Contrast, name: str, comparisons: int = 1) -> Measured:
        """One contrast outside the notebook's list: a combination with and without a factor, or against another.

        It is measured until it would be told from chance as one of so many `comparisons`.
        """
        prior = replace(before_trial(contrast, None, 0.0, None), name=name)
        if prior.outcome is Outcome.NOT_TESTABLE:
            return Measured(contrast=contrast, verdict=prior, record=None)
        return self._measure(contrast, name, prior, comparisons)

    def _measure(self, contrast: Contrast, name: str, prior: Verdict, comparisons: int, purpose: str = "") -> Measured:
        budget = self.settings.budget
        stop = enough(budget.minimum_effect, comparisons, budget.max_pairs)
        arms, events = (contrast.baseline, contrast.treatment), contrast.events
        record = self._comparison(name, *arms, budget.max_pairs, stop, purpose=purpose, events=events)
        device = str(record.baseline.observed.get("device", self.device))
        verdict = judge(prior, contrast, record, budget.minimum_effect, device, self._stalling)
        return Measured(contrast=contrast, verdict=verdict, record=record)

    def conclude(self, cause: str = "", adopted: Verdict | None = None) -> Summary:
        """Keep this notebook's verdicts for the index and the final configuration, and end the session."""
        summary = Summary(
            notebook=self.notebook,
            verdicts=[m.verdict for m in self.measured],
            cause=cause,
            arm=identity(self.arm.determinants()),
            shares=self.baseline.facts.shares,
            suspects=self.suspects,
            minimum_effect=self.settings.budget.minimum_effect,
            adopted=adopted,
            seconds=time.monotonic() - self.began,
            measured_seconds=self._session.measured_seconds if self._session else 0.0,
            steps=self._session.steps if self._session else 0,
        )
        self.store.write(summary, "summaries", self.notebook)
        self.close()
        return summary

    def _prior(self, contrast: Contrast) -> Verdict:
        facts = replace(self.baseline.facts, data_ceiling=self.ceiling)
        return before_trial(contrast, facts, self.settings.budget.minimum_effect, self.settings.job.samples)

    def _promise(self, contrast: Contrast) -> tuple[bool, float]:
        """Order of measuring: what shows a limit first, then by bound, largest first; last what has none."""
        bound = self._prior(contrast).bound
        return contrast.meaning is not Meaning.DIAGNOSTIC, -(bound.ratio if bound else 0.0)

    # -- records --

    def _place(self) -> list[object]:
        return [to_plain(self.machine), versions(), __version__]

    def _key(
        self,
        baseline: Arm,
        treatment: Arm,
        most: int,
        twin: bool = False,
        purpose: str = "",
        events: frozenset[str] = frozenset(),
    ) -> str:
        """The name of a comparison's record: what decides what would be measured."""
        b = self.settings.budget
        asked = replace(b, exhaustive=False, noise_pairs=3, max_pairs=max(most, 3), observe_seconds=0, rarest_stall=1)
        effort = [asked, purpose, sorted(events), 0.0 if twin else self._stall_samples]
        return identity(baseline.determinants(), treatment.determinants(), twin, effort, self._place())

    def _measured_before(self, contrast: Contrast, purpose: str) -> bool:
        """Whether a contrast has a record already, which then counts and not its bound."""
        most = self.settings.budget.max_pairs
        key = self._key(contrast.baseline, contrast.treatment, most, purpose=purpose, events=contrast.events)
        return self.store.path("comparisons", key).is_file()

    def _comparison(
        self,
        name: str,
        baseline: Arm,
        treatment: Arm,
        most: int,
        stop: Callable[[list[Pair]], bool],
        twin: bool = False,
        purpose: str = "",
        events: frozenset[str] = frozenset(),
    ) -> ComparisonRecord:
        least = 0.0 if twin else self._stall_samples
        key = self._key(baseline, treatment, most, twin, purpose, events)
        began = time.monotonic()

        def watched(pairs: list[Pair]) -> bool:
            self._tell(name, pairs, most, began)
            return stop(pairs)

        return self._kept(
            ComparisonRecord,
            "comparisons",
            key,
            lambda: self.session.compare(baseline, treatment, most, watched, twin, purpose, LOOKS, events, least),
            name=name,
            treatment=treatment.determinants(),
        )

    def _kept(self, kind: type, folder: str, key: str, measure: Callable[[], object], **about: object) -> object:
        """The record of that key; measured, and written, only if there is none."""
        found = self.store.read(kind, folder, key)
        if found is None:
            found = measure()
            self.store.write(found, folder, key, about=to_plain(about))
        return found

    def _tell(self, name: str, pairs: list[Pair], most: int, began: float) -> None:
        elapsed = time.monotonic() - began
        left = elapsed / len(pairs) * (most - len(pairs)) if pairs else None
        estimate = span(change(pairs)) if len(pairs) >= LOOKS[0] else ""
        progress = Progress(
            notebook=self.notebook,
            comparison=name,
            pair=len(pairs),
            of=most,
            estimate=estimate,
            began=began,
            remaining=left,
        )
        to_file(progress)
        if "IPython" in sys.modules:
            from slowstep.report.live import show_line

            self._line = show_line(progress.line(), self._line)


def _failure(trial: TrialRecord) -> str:
    """Why a trial failed, in words; empty if it did not."""
    return "" if trial.status is Status.OK else f"{trial.status}: {trial.reason}"


def _computed_in(s: Settings) -> str:
    """The arithmetic of the matrix products."""
    if s.training("bf16") or s.training("fp16"):
        return "bfloat16" if s.training("bf16") else "float16"
    four_bit = (s.quantization or {}).get("bnb_4bit_compute_dtype")
    return str(four_bit) if four_bit else s.model.dtype
