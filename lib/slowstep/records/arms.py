"""All steady steps of one arm, collected from every record of an investigation."""

from __future__ import annotations

from collections.abc import Mapping

from slowstep.records.schema import ComparisonRecord, ObservationRecord, Steps
from slowstep.records.store import Store


def steps_of_arm(store: Store, arm: str, machine: Mapping[str, object], versions: Mapping[str, str]) -> list[Steps]:
    """Return the steps of the arm with the identity `arm`, timed on this machine with these packages, by launch."""
    found: list[Steps] = []
    for seen in store.every(ObservationRecord, "observations"):
        found += seen.trial.steps if (seen.arm, seen.machine, seen.versions) == (arm, machine, versions) else []
    for record in store.every(ComparisonRecord, "comparisons"):
        for identity, trial in zip(record.arms, (record.baseline, record.treatment), strict=False):
            same = (identity, record.machine, record.versions) == (arm, machine, versions)
            found += trial.steps if same else []
    return found
