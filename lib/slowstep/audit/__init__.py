"""The audit of reported figures: they are compared with each other, with bounds and with physics, without any trial."""

from slowstep.audit.audit import audit
from slowstep.audit.experiment_file import experiment, write_experiment
from slowstep.audit.findings import Audit, Finding, FindingKind, Judged, Judgement

__all__ = ["Audit", "Finding", "FindingKind", "Judged", "Judgement", "audit", "experiment", "write_experiment"]
