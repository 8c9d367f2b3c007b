"""Measurements as plain data: the only thing that passes between notebooks, runs and machines."""

from slowstep.records.arm_steps import steps_of_arm
from slowstep.records.schema import (
    ComparisonRecord,
    Environment,
    EventRecord,
    Node,
    ObservationRecord,
    Pair,
    TrialRecord,
)
from slowstep.records.store import Store, identity
from slowstep_probe.measured import PHASES, Block, Memory, Status, Steps, Work
from slowstep_probe.profiled import Operator, Place, ProfileRecord

__all__ = [
    "PHASES",
    "Block",
    "ComparisonRecord",
    "Environment",
    "EventRecord",
    "Memory",
    "Node",
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
