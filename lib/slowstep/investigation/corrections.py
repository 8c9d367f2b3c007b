"""What later steps of the baseline correct in what was concluded from the first ones."""

from __future__ import annotations

from pathlib import Path

from slowstep.investigation.opening import read_investigation
from slowstep.investigation.results import Summary
from slowstep.judgement.timeline import contradicted
from slowstep.records import Store
from slowstep.settings.sections import BASELINE


def contradictions(folder: Path) -> list[str]:
    """Return the phases whose shares in the first notebook are contradicted by later steps of the baseline."""
    store = Store(folder / "records")
    said = store.read(Summary, "summaries", BASELINE.notebook)
    return contradicted(said.shares, read_investigation(folder).evidence.baseline.facts.timeline) if said else []
