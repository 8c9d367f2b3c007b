"""What is asked to be done to a program. It goes over a wire, so it needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """What is done to a program that knows nothing of it."""

    values: dict[str, Any] = field(default_factory=dict)
    """The changes, by canonical key."""
    feeding: list[tuple[str, int]] = field(default_factory=list)
    """File and line of each place where a loader is made that feeds training; without any, all loaders are taken to."""
    endless: bool = True
    """True if it shall train until it is ended."""
    writable: list[str] = field(default_factory=list)
    """The folders that the program's trial really writes to. All else that it writes is thrown away with it."""
    seed: int = 0
    """The seed of what the program does not seed itself."""
