"""Investigations in batch: every notebook over a parameter file, whatever fails, from where it stopped."""

from slowstep.batch.investigations import Teller, audit, contradictions, diagnose, draw
from slowstep.batch.notebook import NOTEBOOKS, notebooks
from slowstep.batch.stored import RECORDS, unusable_records

__all__ = [
    "NOTEBOOKS",
    "RECORDS",
    "Teller",
    "audit",
    "contradictions",
    "diagnose",
    "draw",
    "notebooks",
    "unusable_records",
]
