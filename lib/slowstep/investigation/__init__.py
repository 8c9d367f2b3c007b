"""An investigation: the evidence in its records, the specs of these, and the lab that notebooks hold."""

from slowstep.investigation.evidence import Evidence, NotMeasured, Unmeasurable
from slowstep.investigation.lab import Lab
from slowstep.investigation.opening import ROOT, open_command, open_investigation, open_lab, read_investigation
from slowstep.investigation.results import Baseline, BatchSize, Measured, NotebookRun, Summary, worth_having

__all__ = [
    "ROOT",
    "Baseline",
    "BatchSize",
    "Evidence",
    "Lab",
    "Measured",
    "NotMeasured",
    "NotebookRun",
    "Summary",
    "Unmeasurable",
    "open_command",
    "open_investigation",
    "open_lab",
    "read_investigation",
    "worth_having",
]
