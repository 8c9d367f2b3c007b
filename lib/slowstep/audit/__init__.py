"""The audit of reported figures: they are compared with each other, with bounds and with physics, without any trial."""

from slowstep.audit.audit import audit
from slowstep.audit.experiment import experiment, write_experiment
from slowstep.audit.findings import Audit, Finding, Judged, Judgement, Kind

__all__ = ["Audit", "Finding", "Judged", "Judgement", "Kind", "audit", "experiment", "write_experiment"]
