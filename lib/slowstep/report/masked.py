"""Values of settings as reports show them, so that a report can be shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slowstep_probe.secret import HIDDEN, hidden, is_secret


def masked(name: str, value: Any) -> Any:
    """Return a setting's value with `***` in place of secrets, also within lists, mappings and commands."""
    if is_secret(name, value):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: masked(str(key), one) for key, one in value.items()}
    if isinstance(value, list):
        is_command = all(isinstance(one, str) for one in value)
        return hidden(value) if is_command else [masked(name, one) for one in value]
    return value
