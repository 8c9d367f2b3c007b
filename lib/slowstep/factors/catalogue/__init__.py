"""Every factor the kit can test, by the section of a parameter file that it belongs to.

To add a factor, add an entry to its section's module (docs/adding-a-factor.md).
"""

from importlib import import_module

from slowstep.factors.factor import Factor
from slowstep.settings.sections import LEVEL_SECTIONS

BY_SECTION: dict[str, tuple[Factor, ...]] = {
    section: import_module(f"slowstep.factors.catalogue.{section}").FACTORS for section in LEVEL_SECTIONS
}

CATALOGUE: dict[str, Factor] = {f.name: f for factors in BY_SECTION.values() for f in factors}
