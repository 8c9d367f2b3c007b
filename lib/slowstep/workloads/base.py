"""The interface of a workload, and how one is found by its name."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any, Protocol, TypedDict, get_args, get_type_hints

from slowstep.settings import Settings
from slowstep.settings.settings import WORKLOADS
from slowstep_probe.trial.program_hooks import EventResult, NotTestable

__all__ = ["EventResult", "Facts", "NotTestable", "Workload", "checked", "load_workload"]


class Facts(TypedDict, total=False):
    """Facts that a workload may report of itself, beside those that the probe sees. All of them are optional.

    Other names are kept as they are, for the proof that a factor of the user's own took effect.
    """

    event_period: int
    """Optimizer steps in which each periodic event of the trial happens a whole number of times."""
    max_length: int | None
    distinct_steps: int
    """Optimizer steps after which the trial's examples come again."""
    epoch_padded_tokens: int
    """Positions of the job's epoch, padding included."""
    matmul_parameters: int
    trained_parameters: int
    layers: int
    hidden_size: int
    vocab_size: int
    gradient_checkpointing: bool
    every_n_layers: int | None
    lora_r: int | None
    autocast: str
    dropout: bool


def checked(facts: Any, workload: Any) -> dict[str, Any]:
    """Return what a workload reported; NotTestable if it is of the wrong type, or can't be kept in a record."""
    name = type(workload).__qualname__
    if not isinstance(facts, dict) or not all(isinstance(fact, str) for fact in facts):
        raise NotTestable(f"{name}.observe() must return a mapping of names to facts, and returned {facts!r:.60}")
    for fact, kind in get_type_hints(Facts).items():
        if fact in facts and not isinstance(facts[fact], kind):
            raise NotTestable(f"{name}.observe(): {fact} is {facts[fact]!r:.60}, and must be {_words(kind)}")
    try:
        json.dumps(facts)
    except (TypeError, ValueError) as error:
        raise NotTestable(f"{name}.observe(): {error}; facts are numbers, texts, true, false, None, or lists") from None
    return facts


def _words(kind: Any) -> str:
    words = {int: "a whole number", bool: "True or False", str: "a text", NoneType: "None"}
    return " or ".join(words[one] for one in (get_args(kind) or (kind,)))


class Workload(Protocol):
    """A model with its data and its training loop. A trial calls the methods in this order, each once.

    Nothing here knows about measuring: the probe is attached around `train`, and training runs until the probe ends it
    at a step boundary. Each trial is a new process.
    """

    device: str
    """The kind of device, 'cpu' or 'cuda'. It is known after `build_model`."""

    def __init__(self, settings: Settings, folder: Path):
        """Take the settings, and the trial's own `folder` for what training writes. It is deleted with the trial."""

    def prepare_data(self) -> None:
        """Read and prepare the data."""

    def build_model(self) -> None:
        """Build or load the model, on its device."""

    def build_trainer(self) -> None:
        """Build everything else that precedes the first step."""

    def train(self) -> None:
        """Train without end."""

    def observe(self) -> Facts:
        """Return what the probe can't see, read from the live objects after a few steps."""

    def periodic_events(self) -> dict[str, Callable[[], EventResult]]:
        """Return the periodic events that are too rare for a block ('save', 'evaluate'), each ready to be called."""


def load_workload(name: str) -> type[Workload]:
    """Return the workload class of a registered name, or of `module:Class`.

    ImportError or AttributeError if there is none.
    """
    module, _, attribute = WORKLOADS.get(name, name).partition(":")
    return getattr(importlib.import_module(module), attribute)
