"""The sizes of a report's model, which a process with torch has to find out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slowstep.audit import Audit, Judged, Judgement, audit
from slowstep.audit.physics import Sizes
from slowstep.audit.run import TEXT
from slowstep.environment.machine import versions
from slowstep.judgement.devices import peak_of
from slowstep.records import Store, identity
from slowstep.settings import Settings

FindSizes = Callable[[Settings], Sizes]
"""A function that finds out how large a model is."""


def audited(
    settings: Settings, store: Store, sizes: FindSizes | None, packages: Mapping[str, str] | None = None
) -> Audit:
    """Return the audit; SettingsError if the figures can't be read without a guess.

    `sizes` finds out how large the model is. Without it, only sizes count that were found out before, with the
    versions of `packages`, or with those installed here.
    """
    sizing = Sizing(settings, store, versions() if packages is None else packages)
    return audit(settings, sizing.found_out(sizes) if sizing.missing and sizes else sizing.known)


@dataclass(frozen=True)
class Sizing:
    """The sizes of a report's model, which may be needed or not, and known or still to be found out."""

    settings: Settings
    store: Store
    packages: Mapping[str, str] = field(default_factory=versions)
    """The versions of the packages that know the model, by name."""

    @property
    def known(self) -> Sizes | None:
        """The sizes that were found out before, {} if no model is named.

        None if they were not found out, or if no figure can be compared with them.
        """
        if not self._needed:
            return None
        return {} if self.settings.figures_alone else self.store.read(dict, "sizes", self._key) or None

    @property
    def missing(self) -> bool:
        """True if the sizes have to be found out."""
        return self._needed and self.known is None

    def found_out(self, find: FindSizes) -> Sizes:
        """Find the sizes out by `find`, keep them, and return them; {} if the model can't be had."""
        sizes = find(self.settings)
        if sizes:  # else they may be found another time
            self.store.write(sizes, "sizes", self._key)
        return sizes

    def judged_without(self, found: Audit) -> list[Judged]:
        """Return the claims whose judgement stays the same, whatever the sizes.

        The sizes may show that a claim which holds rests on figures that can't be true.
        """
        return [c for c in found.claims if not self.missing or c.judgement is not Judgement.HOLDS]

    @property
    def _needed(self) -> bool:
        reported = self.settings.reported
        if not reported or self.settings.workload not in TEXT:
            return False
        return bool(any(c.factor == "max_length" for c in reported.claims) or peak_of(reported.device))

    @property
    def _key(self) -> str:
        return identity("sizes", self.settings.model, self.settings.peft, dict(self.packages))
