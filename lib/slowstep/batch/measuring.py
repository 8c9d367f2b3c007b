"""All that the notebooks of an investigation ask, measured by one measurer: imports and launches are made once."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slowstep.final.choice import Choice, choose
from slowstep.final.decision import decision_of
from slowstep.investigation import Lab, open_lab
from slowstep.investigation.asked import sections_asked
from slowstep.investigation.batch_size import find_batch
from slowstep.investigation.corrections import contradictions
from slowstep.investigation.lab import PLAN, Watch
from slowstep.investigation.opening import measurer_of
from slowstep.judgement.verdict import Verdict
from slowstep.measure.measurer import Measurer
from slowstep.settings import Loaded
from slowstep.settings.sections import AUDIT, BASELINE, FINAL, TESTED, Section


@dataclass(frozen=True, kw_only=True)
class Concluded:
    """What measuring a section came to."""

    section: Section
    lab: Lab
    """The section's lab, from which what was measured can be read."""
    verdicts: Sequence[Verdict] = ()
    choice: Choice | None = None
    """The choice of the final section."""
    moved: Sequence[str] = ()
    """The phases of which later steps of the baseline show another share, if the section concludes again for them."""
    fails: str = ""
    """How the run itself failed after it had trained for a while, as the baseline's section tells it."""
    failed: Exception | None = None
    """Why it could not be measured to its end."""


def measured(
    sections: Collection[Section], loaded: Loaded, outputs: Path, watch: Watch, measurer: Measurer | None = None
) -> Iterator[Concluded]:
    """Measure what an investigation asks and is not known yet; yield each of `sections` as soon as it has concluded.

    After the baseline the comparisons of all sections are measured in one order, the most promising first. If later
    steps of the baseline contradict what it concluded, all sections conclude again. A section that fails does not stop
    the others. Unmeasurable if the baseline can't be trained. The section `measure` says where the kit measures if no
    other `measurer` is given.
    """
    tested = [section for section in sections_asked(loaded.settings) if section in TESTED]
    folder = outputs / loaded.settings.name
    own = measurer or measurer_of(loaded.settings, folder)
    with contextlib.closing(own):

        def lab(name: str) -> Lab:
            return open_lab(loaded, outputs, name, own, watch, shared=True)

        if BASELINE in sections:
            yield _baseline(lab(BASELINE.notebook))
        with contextlib.suppress(Exception):  # what fails here fails again in its own section, which says why
            lab(PLAN).pursue()
        for section in (section for section in tested if section in sections):
            yield _concluded(section, lab(section.notebook))
        if moved := contradictions(folder):
            yield _baseline(lab(BASELINE.notebook), moved)
            for section in tested:
                yield _concluded(section, lab(section.notebook), moved)
        for section in (FINAL, AUDIT):
            if section in sections or (moved and section is FINAL):
                yield _concluded(section, lab(section.notebook))


def _baseline(lab: Lab, moved: Sequence[str] = ()) -> Concluded:
    return Concluded(section=BASELINE, lab=lab, moved=moved, fails=lab.conclude().fails)


def _concluded(section: Section, lab: Lab, moved: Sequence[str] = ()) -> Concluded:
    """Measure a section and return what it concluded, or why it could not."""
    try:
        if section is AUDIT:
            _ = lab.audit
            return Concluded(section=section, lab=lab)
        if section is FINAL:
            choice = choose(lab)
            lab.conclude(decision=decision_of(choice))
            return Concluded(section=section, lab=lab, verdicts=choice.verdicts, choice=choice)
        found = lab.test(section.name)
        if section.searches_batch:
            found += [size.measured.verdict for size in find_batch(lab) if size.measured]
        lab.conclude()
        return Concluded(section=section, lab=lab, verdicts=list({v.name: v for v in found}.values()), moved=moved)
    except Exception as error:  # what another section found must not be lost
        return Concluded(section=section, lab=lab, moved=moved, failed=error)
