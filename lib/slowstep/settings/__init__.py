"""Parameter files as typed, validated, immutable settings."""

from slowstep.settings.errors import SettingsError
from slowstep.settings.load import load, override, validate
from slowstep.settings.schema import LEVEL_SECTIONS, TRAINED, Loaded, Origin, Settings

__all__ = [
    "LEVEL_SECTIONS",
    "TRAINED",
    "Loaded",
    "Origin",
    "Settings",
    "SettingsError",
    "load",
    "override",
    "validate",
]
