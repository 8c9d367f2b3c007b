"""Parameter files as typed, validated, immutable settings."""

from slowstep.settings.errors import SettingsError
from slowstep.settings.load import from_data, load, override, validate
from slowstep.settings.schema import TRAINED
from slowstep.settings.sections import LEVEL_SECTIONS, TESTED_SECTIONS
from slowstep.settings.settings import Loaded, Settings

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
