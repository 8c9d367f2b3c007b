"""Every steady step of one arm, in whatever record of an investigation it lies."""

from __future__ import annotations

from collections.abc import Mapping

from slowstep.records.schema import ComparisonRecord, ObservationRecord, Steps
from slowstep.records.store import Store


def steps_of_arm(store: Store, arm: str, machine: Mapping[str, object], versions: Mapping[str, str]) -> list[Steps]:
    """The steps of the arm of that identity that were timed on this machine with these packages, by launch."""
    found: list[Steps] = []
    for seen in store.every(ObservationRecord, "observations"):
        found += seen.trial.steps if (seen.arm, seen.machine, seen.versions) == (arm, machine, versions) else []
    for record in store.every(ComparisonRecord, "comparisons"):
        for identity, trial in zip(record.arms, (record.baseline, record.treatment), strict=False):
            here = (identity, record.machine, record.versions) == (arm, machine, versions)
            found += trial.steps if here else []
    return found
