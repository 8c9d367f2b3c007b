"""Measurements as plain data: the only thing that passes between notebooks, runs and machines."""

from slowstep.records.arm_steps import steps_of_arm
from slowstep.records.schema import (
    PHASES,
    Block,
    ComparisonRecord,
    Environment,
    EventRecord,
    Memory,
    ObservationRecord,
    Operator,
    Pair,
    Place,
    ProfileRecord,
    Status,
    Steps,
    TrialRecord,
    Work,
)
from slowstep.records.store import Store, identity

__all__ = [
    "PHASES",
    "Block",
    "ComparisonRecord",
    "Environment",
    "EventRecord",
    "Memory",
    "ObservationRecord",
    "Operator",
    "Pair",
    "Place",
    "ProfileRecord",
    "Status",
    "Steps",
    "Store",
    "TrialRecord",
    "Work",
    "identity",
    "steps_of_arm",
]
