"""Hooks by which a program that knows of the trial takes part in it. A script that knows nothing of it sets none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


class NotTestable(Exception):
    """The error of a program for what can't be had on this machine. Its text says why."""


@dataclass(frozen=True, kw_only=True)
class EventResult:
    """The result of a periodic event: bytes written, samples evaluated, and a function that clears it away."""

    bytes: int | None = None
    samples: int | None = None
    fixed: float = 0.0
    """Seconds that it takes however many samples are evaluated, as far as that is known: those of its set-up."""
    clear: Callable[[], object] = lambda: None
    """A function that deletes what was written. It is called when the time has been taken."""


@dataclass
class ProgramHooks:
    """What a program tells its trial, and what the trial calls."""

    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds of its start-up, by part."""
    beforehand: dict[str, float] = field(default_factory=dict)
    """Seconds that parts of its start-up took before the trial, once for all trials. Alone it would take them, too."""
    device: str = ""
    """The kind of device that it trains on, 'cpu' or 'cuda'; empty if it does not say."""
    facts: Callable[[], Mapping[str, Any]] = dict
    """A function that returns facts which the probe can't see, read from live objects after a few steps."""
    before_first_step: Callable[[], None] = lambda: None
    """A function that is called when training is about to begin."""
    periodic_events: Callable[[], Mapping[str, Callable[[], EventResult]]] = dict
    """A function that returns the periodic events that are too rare for a block, each ready to be called."""


hooks = ProgramHooks()
"""Those of the program of this process. They are set by the program alone, and read by its trial."""
