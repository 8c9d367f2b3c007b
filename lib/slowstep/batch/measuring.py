"""All that the notebooks of an investigation ask, measured by one measurer: imports and launches are made once."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path

from slowstep.batch.concluding import Concluded, baseline, concluded
from slowstep.investigation import Lab, open_lab
from slowstep.investigation.lab import PLAN, Watch
from slowstep.investigation.opening import measurer_of, read_investigation
from slowstep.investigation.results import Summary
from slowstep.investigation.sections_to_answer import sections_to_answer
from slowstep.judgement.timeline import contradicted
from slowstep.measure.measurer import Measurer
from slowstep.records import Store
from slowstep.settings import Loaded
from slowstep.settings.sections import AUDIT, BASELINE, FINAL, TESTED, Section


def measured(
    sections: Collection[Section], loaded: Loaded, outputs: Path, watch: Watch, measurer: Measurer | None = None
) -> Iterator[Concluded]:
    """Measure what an investigation asks and is not known yet; yield each of `sections` as soon as it has concluded.

    After the baseline the comparisons of all sections are measured in one order, the most promising first. If later
    steps of the baseline contradict what it concluded, all sections conclude again. A section that fails does not stop
    the others. Unmeasurable if the baseline can't be trained. The section `measure` says where the kit measures if no
    other `measurer` is given.
    """
    tested = [section for section in sections_to_answer(loaded.settings) if section in TESTED]
    folder = outputs / loaded.settings.name
    own = measurer or measurer_of(loaded.settings, folder)
    with contextlib.closing(own):

        def lab(name: str) -> Lab:
            return open_lab(loaded, outputs, name, own, watch, shared=True)

        if BASELINE in sections:
            yield baseline(lab(BASELINE.notebook))
        with contextlib.suppress(Exception):  # what fails here fails again in its own section, which says why
            lab(PLAN).pursue()
        for section in (section for section in tested if section in sections):
            yield concluded(section, lab(section.notebook))
        if moved := contradictions(folder):
            yield baseline(lab(BASELINE.notebook), moved)
            for section in tested:
                yield concluded(section, lab(section.notebook), moved)
        for section in (FINAL, AUDIT):
            if section in sections or (moved and section is FINAL):
                yield concluded(section, lab(section.notebook))


def contradictions(folder: Path) -> list[str]:
    """Return the phases whose shares in the first notebook are contradicted by later steps of the baseline."""
    store = Store(folder / "records")
    said = store.read(Summary, "summaries", BASELINE.notebook)
    return contradicted(said.shares, read_investigation(folder).evidence.baseline.facts.timeline) if said else []
