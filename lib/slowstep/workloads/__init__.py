"""The workloads: what trials train."""

from slowstep.workloads.base import EventResult, NotTestable, Workload, checked, load_workload

__all__ = ["EventResult", "NotTestable", "Workload", "checked", "load_workload"]
