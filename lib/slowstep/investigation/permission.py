"""What a parameter file lets a configuration hold: the changes that were shown to be faster and that it permits."""

from __future__ import annotations

from slowstep.factors import CATALOGUE, Meaning
from slowstep.investigation.results import Measured
from slowstep.judgement.verdict import Outcome
from slowstep.settings import Settings
from slowstep.settings.schema import Allow


def supported(m: Measured) -> bool:
    """Return whether a change was shown to be faster by a trial."""
    return m.verdict.outcome is Outcome.SUPPORTED and m.record is not None


def allowed_by(m: Measured, settings: Settings) -> bool:
    """Return whether the parameter file permits a change."""
    return class_allowed(m, settings) and not kept_factors(m, settings)


def class_allowed(m: Measured, settings: Settings) -> bool:
    """Return whether the parameter file permits changes of the class of a measured one."""
    return permits(settings.allow, m.verdict.meaning)


def permits(allow: Allow, meaning: Meaning) -> bool:
    """Return whether a parameter file permits changes of a class. A diagnostic change only shows a limit."""
    permitted = {
        Meaning.EXACT: True,
        Meaning.NUMERICS: allow.numerics,
        Meaning.SEMANTICS: allow.semantics,
        Meaning.DIAGNOSTIC: False,
    }
    return permitted[meaning]


def kept_factors(m: Measured, settings: Settings) -> list[str]:
    """Return the factors that the parameter file keeps as they are and that a change would alter.

    What is altered in the end counts, not the name: a mode of compiling compiles.
    """
    changed = m.contrast.treatment.settings.run
    return [n for n in settings.allow.never if CATALOGUE[n].current(changed) != CATALOGUE[n].current(settings.run)]
