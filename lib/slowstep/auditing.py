"""An audit of reported figures with the sizes of the model, which a process of its own finds out."""

from __future__ import annotations

from slowstep.audit import Audit, audit
from slowstep.audit.physics import Sizes
from slowstep.audit.run import TEXT
from slowstep.judgement.devices import peak_of
from slowstep.machine import versions
from slowstep.records import Store, identity
from slowstep.settings import Settings
from slowstep.trials.entry import enter_sizes
from slowstep.trials.helper import errand


def audited(settings: Settings, store: Store) -> Audit:
    """The audit; SettingsError if the figures can't be read without a guess."""
    return audit(settings, model_sizes(settings, store))


def model_sizes(settings: Settings, store: Store) -> Sizes | None:
    """Sizes of the model where the figures can be held against them, {} where it can't be had; asked for once and
    kept."""
    reported = settings.reported
    lengths = reported and any(c.factor == "max_length" for c in reported.claims)
    if not reported or settings.workload not in TEXT or not (lengths or peak_of(reported.device)):
        return None
    key = identity("sizes", settings.model, settings.peft, versions())
    sizes = store.read(dict, "sizes", key)
    if not sizes:
        sizes = errand(enter_sizes, settings)
        if sizes:  # else they may be found another time
            store.write(sizes, "sizes", key)
    return sizes
