"""What a section concludes from its records: as it is measured, and again where its report is drawn by other code."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from slowstep.environment.own_code import judging_code
from slowstep.final.choice import Choice, choose
from slowstep.final.decision import decision_of
from slowstep.investigation import Lab, read_investigation
from slowstep.investigation.batch_size import find_batch
from slowstep.investigation.results import Summary
from slowstep.judgement.verdict import Verdict
from slowstep.records import Store
from slowstep.settings.sections import AUDIT, BASELINE, FINAL, Section


@dataclass(frozen=True, kw_only=True)
class Concluded:
    """What measuring a section came to."""

    section: Section
    lab: Lab
    """The section's lab, from which what was measured can be read."""
    verdicts: Sequence[Verdict] = ()
    choice: Choice | None = None
    """The choice of the final section."""
    summary: Summary | None = None
    """What was concluded; None of an audit, and of what could not be measured."""
    moved: Sequence[str] = ()
    """The phases of which later steps of the baseline show another share, if the section concludes again for them."""
    fails: str = ""
    """How the run itself failed after it had trained for a while, as the baseline's section tells it."""
    failed: Exception | None = None
    """Why it could not be measured to its end."""


def baseline(lab: Lab, moved: Sequence[str] = ()) -> Concluded:
    """Return what is concluded of the run as it is; Unmeasurable if it can't be trained."""
    summary = lab.conclude()
    return Concluded(section=BASELINE, lab=lab, summary=summary, moved=moved, fails=summary.fails)


def concluded(section: Section, lab: Lab, moved: Sequence[str] = ()) -> Concluded:
    """Return what a section of hypotheses, the choice or the audit concludes, or why it could not."""
    try:
        if section is AUDIT:
            _ = lab.audit
            return Concluded(section=section, lab=lab)
        if section is FINAL:
            choice = choose(lab)
            summary = lab.conclude(decision=decision_of(choice))
            return Concluded(section=section, lab=lab, summary=summary, verdicts=choice.verdicts, choice=choice)
        found = lab.test(section.name)
        if section.searches_batch:
            found += [size.measured.verdict for size in find_batch(lab) if size.measured]
        verdicts = list({v.name: v for v in found}.values())
        return Concluded(section=section, lab=lab, summary=lab.conclude(), verdicts=verdicts, moved=moved)
    except Exception as error:  # what another section found must not be lost
        return Concluded(section=section, lab=lab, moved=moved, failed=error)


def conclude_again(folder: Path, sections: Collection[Section]) -> dict[Section, Exception]:
    """Conclude again, from the same records, what other code of the kit has concluded, for reports that are drawn now.

    Where that fails, what was concluded stays. Return those sections with the reasons.
    """
    failed, store = dict[Section, Exception](), Store(folder / "records")
    for section in sections:
        known = store.read(Summary, "summaries", section.notebook)
        if section is not AUDIT and (known is None or known.code == judging_code()):
            continue
        try:
            lab = read_investigation(folder, section.notebook)
            found = baseline(lab) if section is BASELINE else concluded(section, lab)
        except Exception as error:  # of the records, or of the baseline; others stand in what is returned
            failed[section] = error
            continue
        if found.failed is not None:
            failed[section] = found.failed
        elif section is AUDIT:
            lab.keep_audit(lab.audit)
        else:
            store.write(found.summary, "summaries", section.notebook)
    return failed
