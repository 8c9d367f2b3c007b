"""Lines on files that were edited before an investigation goes on: since its survey, and since it was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from slowstep.factors.own_values import as_they_are
from slowstep.investigation.opening import DESCRIPTION, Description
from slowstep.records import Store
from slowstep.records.other_files import of_other_files
from slowstep.settings import Settings
from slowstep.wording.edited import after_survey, not_counted


def edited_before(settings: Settings, outputs: Path) -> Iterator[str]:
    """Yield what has to be known of files that were edited before an investigation goes on."""
    if said := after_survey(settings.command, settings.surveyed, as_they_are(settings)):
        yield said
    store = Store(outputs / settings.name / "records")
    known = store.read(Description, *DESCRIPTION)
    if known is not None:
        now = replace(known.environment, files=settings.local_content())
        if said := not_counted(of_other_files(store, now)):
            yield said
