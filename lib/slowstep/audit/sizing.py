"""The sizes of a report's model, which somebody with torch has to find out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slowstep.audit import Audit, Judged, Judgement, audit
from slowstep.audit.physics import Sizes
from slowstep.audit.run import TEXT
from slowstep.environment.machine import versions
from slowstep.judgement.devices import peak_of
from slowstep.records import Store, identity
from slowstep.settings import Settings

FindSizes = Callable[[Settings], Sizes]
"""A function that finds out how large a model is."""


def audited(settings: Settings, store: Store, sizes: FindSizes | None) -> Audit:
    """Return the audit; SettingsError if the figures can't be read without a guess.

    `sizes` finds out how large the model is; without it the sizes are those that were found out before, if they were.
    """
    sizing = Sizing(settings, store)
    return audit(settings, sizing.found_out(sizes) if sizing.missing and sizes else sizing.known)


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

    def found_out(self, find: FindSizes) -> Sizes:
        """Find them out, {} where the model can't be had; what it says is kept."""
        sizes = find(self.settings)
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
