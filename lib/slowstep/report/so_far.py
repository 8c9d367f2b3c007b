"""What is decided before the notebooks have concluded: measuring was interrupted, or it goes on."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from slowstep.investigation import NotMeasured, Unmeasurable, read_investigation
from slowstep.judgement.verdict import Verdict
from slowstep.settings.sections import TESTED, Section


def decided_so_far(folder: Path, asked: Collection[Section]) -> list[Verdict]:
    """Return the verdicts that the notebooks of the sections `asked` would tell now, of what is known by now.

    The list is empty if the baseline is not measured.
    """
    try:
        lab = read_investigation(folder)
        return [v for section in TESTED if section in asked for v in lab.test(section.name) if not v.untried]
    except (NotMeasured, Unmeasurable):
        return []
