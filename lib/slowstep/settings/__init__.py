"""Parameter files as typed, validated, immutable settings."""

from slowstep.settings.errors import SettingsError
from slowstep.settings.load import from_data, load, override, validate
from slowstep.settings.schema import TRAINED, Loaded, Settings
from slowstep.settings.sections import LEVEL_SECTIONS, TESTED_SECTIONS

__all__ = [
    "LEVEL_SECTIONS",
    "TESTED_SECTIONS",
    "TRAINED",
    "Loaded",
    "Settings",
    "SettingsError",
    "from_data",
    "load",
    "override",
    "validate",
]
