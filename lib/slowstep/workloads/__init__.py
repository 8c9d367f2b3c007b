"""What a trial trains."""

from slowstep.workloads.base import NotTestable, Occurrence, Workload, named

__all__ = ["NotTestable", "Occurrence", "Workload", "named"]
