"""All steady steps of one arm, collected from every record of an investigation."""

from __future__ import annotations

from slowstep.records.schema import ComparisonRecord, Environment, ObservationRecord, Steps
from slowstep.records.store import Store


def steps_of_arm(store: Store, arm: str, environment: Environment) -> list[Steps]:
    """Return the steps of the arm of that identity that were timed in that environment, by launch."""
    wanted, found = (arm, environment.determinants), []
    for seen in store.every(ObservationRecord, "observations"):
        found += seen.trial.steps if (seen.arm, seen.environment.determinants) == wanted else []
    for record in store.every(ComparisonRecord, "comparisons"):
        for identity, trial in zip(record.arms, (record.baseline, record.treatment), strict=False):
            found += trial.steps if (identity, record.environment.determinants) == wanted else []
    return found
