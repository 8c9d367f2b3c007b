"""The interface of a workload, and how one is found by its name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from slowstep.settings import Settings
from slowstep.settings.schema import WORKLOADS


class NotTestable(Exception):
    """Raised by a workload for what can't be had on this machine; the text says why."""


@dataclass(frozen=True, kw_only=True)
class EventResult:
    """What an occasional event left behind: bytes written, samples evaluated, and how to clear it away."""

    bytes: int | None = None
    samples: int | None = None
    clear: Callable[[], object] = lambda: None
    """Called when the time has been taken."""


class Workload(Protocol):
    """What to train, under given settings. A trial calls the methods in this order, each once, in a fresh process.

    Nothing here knows about measuring: the probe is attached around `train`, and training runs until the probe's
    step boundary ends it.
    """

    device: str
    """'cpu' or 'cuda'; known after `build_model`."""

    def __init__(self, settings: Settings, folder: Path):
        """`folder` is the trial's own, for whatever training writes; it is deleted with the trial."""

    def prepare_data(self) -> None:
        """Read and prepare the data."""

    def build_model(self) -> None:
        """Build or load the model, on its device."""

    def build_trainer(self) -> None:
        """Everything else that precedes the first step."""

    def train(self) -> None:
        """Train without end."""

    def observe(self) -> dict[str, Any]:
        """What is really in effect, read from the live objects after a few steps."""

    def periodic_events(self) -> dict[str, Callable[[], EventResult]]:
        """Events of the real job that are too rare to meet in a block ('save', 'evaluate'), each ready to be called."""


def load_workload(name: str) -> type[Workload]:
    """The workload class of a registered name, or of `module:Class`."""
    module, _, attribute = WORKLOADS.get(name, name).partition(":")
    return getattr(importlib.import_module(module), attribute)
