"""An audit of reported figures with the sizes of the model, which a process of its own finds out; and what of a report
can be audited where a file of it can't be read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slowstep.audit import Audit, Judged, Judgement, audit
from slowstep.audit.audit import read_runs
from slowstep.audit.physics import Sizes
from slowstep.audit.read import Unreadable, read_file
from slowstep.audit.run import TEXT
from slowstep.judgement.devices import peak_of
from slowstep.machine import versions
from slowstep.measure import Measurer
from slowstep.records import Store, identity
from slowstep.settings import Loaded, Settings, SettingsError
from slowstep.settings.convert import to_plain


def audited(settings: Settings, store: Store, measurer: Measurer | None) -> Audit:
    """Return the audit; SettingsError if the figures can't be read without a guess.

    Without a measurer the model's sizes are those that were found out before, if they were.
    """
    sizing = Sizing(settings, store)
    return audit(settings, sizing.found_out(measurer) if sizing.missing and measurer else sizing.known)


@dataclass(frozen=True)
class Sizing:
    """The sizes of a report's model: whether they are asked for, known, or to be found out."""

    settings: Settings
    store: Store

    @property
    def known(self) -> Sizes | None:
        """Sizes that were found out before, {} if no model is named; None where they were not, or the figures can't be
        held against them."""
        if not self._needed:
            return None
        return {} if self.settings.figures_alone else self.store.read(dict, "sizes", self._key) or None

    @property
    def missing(self) -> bool:
        """Whether they have to be found out."""
        return self._needed and self.known is None

    def found_out(self, measurer: Measurer) -> Sizes:
        """Ask a measurer, {} where the model can't be had; what it says is kept."""
        sizes = measurer.model_sizes(self.settings)
        if sizes:  # else they may be found another time
            self.store.write(sizes, "sizes", self._key)
        return sizes

    def judged_without(self, found: Audit) -> list[Judged]:
        """The claims that stay as they are judged, whatever the sizes: what holds may be found to rest on figures that
        can't be true."""
        return [c for c in found.claims if not self.missing or c.judgement is not Judgement.HOLDS]

    @property
    def _needed(self) -> bool:
        reported = self.settings.reported
        if not reported or self.settings.workload not in TEXT:
            return False
        return bool(any(c.factor == "max_length" for c in reported.claims) or peak_of(reported.device))

    @property
    def _key(self) -> str:
        return identity("sizes", self.settings.model, self.settings.peft, versions())


def without_refused_files(loaded: Loaded) -> tuple[list[str], list[str]]:
    """Overrides that leave out the files of a report that can't be read, with what rests on them, and what is left out
    for which reason; nothing where all can be read, or too little would be left to audit."""
    reported = loaded.settings.reported
    refused = _unreadable(reported.files, reported.columns) if reported else {}
    if not refused:
        return [], []
    files = [name for name in reported.files if name not in refused]
    left = replace(reported, files=files, claims=[], rows=[r for r in reported.rows if r.figures or r.out_of_memory])
    try:
        labels = {run.label for run in read_runs(replace(loaded.settings, reported=left))}
    except SettingsError:
        return [], []  # the audit says all that is wrong
    if not labels:
        return [], []
    claims = [c for c in reported.claims if {c.baseline, c.treatment} <= labels]
    kept = {"files": files, "rows": left.rows, "claims": claims}
    problems = list(refused.values())
    problems += [
        f"'{c.text}': not judged, as a row of it is in such a file." for c in reported.claims if c not in claims
    ]
    return [f"reported.{key}={json.dumps(to_plain(value))}" for key, value in kept.items()], problems


def _unreadable(files: Sequence[str], columns: dict[str, str]) -> dict[str, str]:
    """The files that can't be read, and why."""
    found = {}
    for name in files:
        try:
            read_file(Path(name), columns)
        except Unreadable as error:
            found[name] = str(error)
    return found
