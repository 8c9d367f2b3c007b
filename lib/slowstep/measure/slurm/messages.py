"""What the machine that slowstep is started on ("home") and its jobs write to each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from slowstep.judgement.devices import Peak
from slowstep.records import ComparisonRecord, Environment, EventRecord, ObservationRecord, ProfileRecord, TrialRecord

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class JobStart:
    """A start of a job on a node. A job that is requeued starts again, perhaps on another node."""

    name: str
    """The job's number and that of its start: "12-1"."""
    node: str
    pid: int
    environment: Environment


@dataclass(frozen=True, kw_only=True)
class Request:
    """A verb of a measurer with its arguments. `left` is the seconds until its deadline."""

    verb: str
    arguments: tuple[Any, ...]
    left: float


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a start of a job has spent so far: seconds in measured blocks, and optimizer steps."""

    measured_seconds: float = 0.0
    steps: int = 0


@dataclass(frozen=True, kw_only=True)
class MessagePart:
    """The record of one of several comparisons; `place` is its place among those that were asked."""

    place: int
    record: ComparisonRecord
    spent: Spent


@dataclass(frozen=True, kw_only=True)
class MailboxAnswer:
    """The end of what was asked, with its value if it has one. `error` is the text of an exception."""

    value: Any = None
    error: str = ""
    spent: Spent = Spent()


def measured_by(start: JobStart, record: T) -> T:
    """Return a record that says on which node it was measured, and where under records/logs/ its trials' logs are."""

    def of_trial(trial: TrialRecord) -> TrialRecord:
        return replace(trial, log=f"{start.name}/{trial.log}") if trial.log else trial

    if isinstance(record, ComparisonRecord):
        trials = {"baseline": of_trial(record.baseline), "treatment": of_trial(record.treatment)}
        return replace(record, node=start.node, **trials)
    if isinstance(record, ObservationRecord):
        return replace(record, node=start.node, trial=of_trial(record.trial))
    if isinstance(record, EventRecord | ProfileRecord):
        return replace(record, node=start.node)
    return replace(record, source=f"{record.source}, node {start.node}") if isinstance(record, Peak) else record
