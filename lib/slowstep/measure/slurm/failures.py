"""Records of what a job was asked and could not answer, since it ended or by an error: each says `why`."""

from __future__ import annotations

from typing import Any

from slowstep.factors import Arm
from slowstep.measure.measurer import ComparisonRequest
from slowstep.measure.profiling import not_profiled
from slowstep.measure.slurm.job_pool import NodeJob
from slowstep.records import ComparisonRecord, EventRecord, ObservationRecord, Status, TrialRecord, identity
from slowstep_probe.processes.log import log_tail


def failed_comparison(request: ComparisonRequest, job: NodeJob, why: str) -> ComparisonRecord:
    """Return a comparison both of whose trials failed with the job. It is tried again by the next run."""
    arms = (request.baseline, request.treatment)
    baseline, treatment = (_failed_trial(arm, job, why) for arm in arms)
    return ComparisonRecord(
        baseline=baseline,
        treatment=treatment,
        pairs=[],
        arms=[identity(arm.determinants()) for arm in arms],
        node=_node(job),
    )


def failed_answer(verb: str, arguments: tuple[Any, ...], job: NodeJob, why: str) -> Any:
    """Return the answer of any other verb: a record of its kind that holds the reason, or nothing."""
    if verb == "observe":
        arm = arguments[0]
        trial = _failed_trial(arm, job, why)
        return ObservationRecord(arm=identity(arm.determinants()), trial=trial, node=_node(job))
    if verb == "events":
        return EventRecord(seconds={}, failed={"launch": f"{Status.CRASHED}: {why}"}, node=_node(job))
    if verb == "profile":
        return not_profiled(arguments[0], f"{Status.CRASHED}: {why}")
    return {} if verb == "model_sizes" else None


def _failed_trial(arm: Arm, job: NodeJob, why: str) -> TrialRecord:
    log = f"{job.log.parent.name}/{job.log.name}" if job.log.is_file() else ""
    tail = log_tail(job.log) if log else ""
    return TrialRecord(arm=arm.label, status=Status.CRASHED, reason=why, log=log, log_tail=tail)


def _node(job: NodeJob) -> str:
    return job.start.node if job.start else ""
