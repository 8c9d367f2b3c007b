"""What later steps of the baseline correct in what was concluded from the first ones."""

from __future__ import annotations

from pathlib import Path

from slowstep.investigation.opening import read_investigation
from slowstep.investigation.results import Summary
from slowstep.judgement.timeline import contradicted, timeline
from slowstep.judgement.verdict import Outcome
from slowstep.records import Store
from slowstep.settings.sections import BASELINE, FINAL


def contradictions(folder: Path) -> list[str]:
    """Return the phases whose shares in the first notebook are contradicted by later steps of the baseline."""
    store = Store(folder / "records")
    said = store.read(Summary, "summaries", BASELINE.notebook)
    return contradicted(said.shares, timeline(read_investigation(folder).evidence.steps())) if said else []


def refuted_by_bound(folder: Path) -> list[str]:
    """Return the notebooks that refuted something by shares that are contradicted now, and the last, which sums up."""
    every = Store(folder / "records").every(Summary, "summaries")
    refuted = [
        s.notebook
        for s in every
        if any(v.outcome is Outcome.REFUTED and not v.effect and v.bound and v.bound.evidence for v in s.verdicts)
    ]
    again = dict.fromkeys([*refuted, FINAL.notebook])
    return [name for name in again if refuted and name != BASELINE.notebook]
