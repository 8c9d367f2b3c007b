"""Specifications of the records of an investigation: the name of each, and the verb of a measurer that makes it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from slowstep.factors import Arm, Contrast
from slowstep.judgement.comparison import FEWEST_PAIRS
from slowstep.judgement.devices import Peak
from slowstep.judgement.stopping import StopRule
from slowstep.measure.measurer import ComparisonRequest, Measurer, OnPairs
from slowstep.records import (
    ComparisonRecord,
    Environment,
    EventRecord,
    ObservationRecord,
    ProfileRecord,
    Store,
    identity,
)
from slowstep.settings import Settings
from slowstep.settings.schema import Budget

CONFIRMATION = "confirmation"
"""The purpose of pairs that measure once more what was chosen. Their effect is what a report is quoted by."""

QUOTED_PRECISION = 1 / 3
"""Half of a confirmed effect's interval may be at most this part of the effect. At 1/3, +48 % [+30, +69] is told from
+20 % and from +80 %; +48 % [+1, +115] would be told from no effect only."""

UNFINISHED = "unfinished"
"""The folder of comparisons that the end of fewer minutes left undecided, until they go on."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RecordSpec(Generic[T]):
    """The specification of a record: what decides its name, and how a measurer makes it."""

    title: str
    """A few words that are shown while it is measured."""
    record_type: type[T]
    folder: str
    """The record's folder in records/."""
    determinants: tuple[object, ...]
    """All that decides what would be measured, beside the environment."""
    measure: Callable[[Measurer, OnPairs], T | None]
    request: ComparisonRequest | None = None
    """What is asked of a measurer, if it is a comparison."""

    @property
    def max_pairs(self) -> int:
        """Return the most pairs that it takes; 0 for what is no comparison."""
        return self.request.stop.max_pairs if self.request else 0

    def key(self, environment: Environment) -> str:
        """Return the record's name in its folder."""
        return identity(*self.determinants, environment.determinants)

    def going_on(self, store: Store, environment: Environment) -> RecordSpec[T]:
        """Return the spec of the same record, which goes on from what fewer minutes left undecided if there is that."""
        earlier = self.request and store.read(ComparisonRecord, UNFINISHED, self.key(environment))
        if not earlier:
            return self
        request = replace(self.request, earlier=earlier)
        return replace(self, request=request, measure=lambda measurer, on_pairs: measurer.compare(request, on_pairs))

    @property
    def pairs_before(self) -> int:
        """Return the number of pairs that it goes on from."""
        return len(self.request.earlier.pairs) if self.request and self.request.earlier else 0


@dataclass(frozen=True, kw_only=True)
class Pacing:
    """What the baseline's records say of the length of blocks, as `ComparisonRequest` holds it.

    The seconds follow from its A/A comparison, so the names of other records do not depend on them.
    """

    least_samples: float
    block_seconds: float | None
    sample_seconds: float


def comparison(request: ComparisonRequest, budget: Budget, title: str) -> RecordSpec[ComparisonRecord]:
    """Return the spec of a comparison. Its record has one name, whatever number of comparisons it is one of."""
    # what changes neither the blocks nor their order changes no name
    asked = replace(
        budget,
        exhaustive=False,
        find_batch=False,
        minutes=None,
        noise_pairs=FEWEST_PAIRS,
        max_pairs=max(request.stop.max_pairs, FEWEST_PAIRS),
        observe_seconds=0,
        rarest_stall=1,
    )
    effort = (asked, request.purpose, sorted(request.periodic_events), request.least_samples)
    arms = (request.baseline.determinants(), request.treatment.determinants(), request.twin)
    return RecordSpec(
        title=title,
        record_type=ComparisonRecord,
        folder="comparisons",
        determinants=(*arms, effort),
        measure=lambda measurer, on_pairs: measurer.compare(request, on_pairs),
        request=request,
    )


def noise(settings: Settings, arm: Arm) -> RecordSpec[ComparisonRecord]:
    """Return the spec of the A/A comparison: the baseline against other launches of itself."""
    stop = StopRule(max_pairs=settings.budget.noise_pairs)
    return comparison(ComparisonRequest(baseline=arm, treatment=arm, stop=stop, twin=True), settings.budget, "A/A")


def contrast(
    settings: Settings,
    asked: Contrast,
    title: str,
    comparisons: int,
    purpose: str,
    pacing: Pacing,
) -> RecordSpec[ComparisonRecord]:
    """Return the spec of a contrast's comparison, which ends when its hypothesis is decided."""
    budget = settings.budget
    least = asked.minimum_effect(budget.minimum_effect)
    stop = StopRule(
        max_pairs=budget.max_pairs,
        minimum_effect=least,
        comparisons=comparisons,
        two_sided=any(factor.elsewhere for factor, _ in asked.levels),
        launches=budget.launches,
        precision=QUOTED_PRECISION if purpose == CONFIRMATION or least > budget.minimum_effect else math.inf,
    )
    request = ComparisonRequest(
        baseline=asked.baseline,
        treatment=asked.treatment,
        stop=stop,
        purpose=purpose,
        periodic_events=asked.events,
        least_samples=pacing.least_samples,
        block_seconds=pacing.block_seconds,
        sample_seconds=pacing.sample_seconds,
    )
    return comparison(request, budget, title)


def observation(settings: Settings, arm: Arm, steps: int) -> RecordSpec[ObservationRecord]:
    """Return the spec of so many steps of the baseline, trained by itself."""
    seconds = settings.budget.observe_seconds
    return RecordSpec(
        title=f"observing up to {steps} steps",
        record_type=ObservationRecord,
        folder="observations",
        determinants=("observation", arm.determinants(), steps, seconds),
        measure=lambda measurer, on_pairs: measurer.observe(arm, steps, seconds),
    )


def events(arm: Arm) -> RecordSpec[EventRecord]:
    """Return the spec of what saving and evaluating cost."""
    return RecordSpec(
        title="saving and evaluating",
        record_type=EventRecord,
        folder="events",
        determinants=("events", arm.determinants()),
        measure=lambda measurer, on_pairs: measurer.events(arm),
    )


def profile(arm: Arm, traces: Path, start: int = 0) -> RecordSpec[ProfileRecord]:
    """Return the spec of a profile after `start` samples, whose trace goes to the folder `traces`."""
    late = (start,) * bool(start)  # the first one keeps its name
    name = identity(arm.determinants(), *late)
    return RecordSpec(
        title=f"profiling {'later steps of ' * bool(start)}{arm.label}",
        record_type=ProfileRecord,
        folder="profiles",
        determinants=("profile", arm.determinants(), *late),
        measure=lambda measurer, on_pairs: measurer.profile(arm, traces / f"{name}.json.gz", start),
    )


def peak(dtype: str) -> RecordSpec[Peak]:
    """Return the spec of what the device reaches in products of matrices of `dtype`."""
    return RecordSpec(
        title=f"the device's peak in {dtype}",
        record_type=Peak,
        folder="peaks",
        determinants=("peak", dtype),
        measure=lambda measurer, on_pairs: measurer.peak(dtype),
    )
