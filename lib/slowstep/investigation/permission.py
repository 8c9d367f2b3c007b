"""What a parameter file lets a configuration hold: the changes that were shown to be faster and that it permits."""

from __future__ import annotations

from slowstep.factors import CATALOGUE, Meaning
from slowstep.investigation.results import Measured
from slowstep.judgement.verdict import Outcome
from slowstep.settings import Settings


def supported(m: Measured) -> bool:
    """Return whether a change was shown to be faster by a trial."""
    return m.verdict.outcome is Outcome.SUPPORTED and m.record is not None


def allowed_by(m: Measured, settings: Settings) -> bool:
    """Return whether the parameter file permits a change."""
    return class_allowed(m, settings) and not kept_factors(m, settings)


def class_allowed(m: Measured, settings: Settings) -> bool:
    """Return whether the parameter file permits changes of this class."""
    permitted = {
        Meaning.EXACT: True,
        Meaning.NUMERICS: settings.allow.numerics,
        Meaning.SEMANTICS: settings.allow.semantics,
        Meaning.DIAGNOSTIC: False,
    }
    return permitted[m.verdict.meaning]


def kept_factors(m: Measured, settings: Settings) -> list[str]:
    """Return the factors that the parameter file keeps as they are and that a change would alter.

    What is altered in the end counts, not the name: a mode of compiling compiles.
    """
    changed = m.contrast.treatment.settings.run
    return [n for n in settings.allow.never if CATALOGUE[n].current(changed) != CATALOGUE[n].current(settings.run)]
