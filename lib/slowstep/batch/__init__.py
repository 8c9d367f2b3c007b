"""Investigations in batch: every notebook over a parameter file, whatever fails, from where it stopped."""

from slowstep.batch.investigations import Teller, audit, contradictions, diagnose
from slowstep.batch.notebook import NOTEBOOKS, notebooks
from slowstep.batch.stored import RECORDS, unusable_records

__all__ = [
    "NOTEBOOKS",
    "RECORDS",
    "Teller",
    "audit",
    "contradictions",
    "diagnose",
    "notebooks",
    "unusable_records",
]
