"""What is asked to be done to a program. It goes over a wire, so it needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

KEYWORDS = {
    "training_arguments.dataloader_num_workers": "num_workers",
    "training_arguments.dataloader_prefetch_factor": "prefetch_factor",
    "training_arguments.dataloader_persistent_workers": "persistent_workers",
    "training_arguments.dataloader_pin_memory": "pin_memory",
    "training_arguments.per_device_train_batch_size": "batch_size",
}
"""The keywords of a DataLoader, by canonical key."""


NEED_WORKERS = ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context")
"""Keywords that torch refuses without workers."""


GIVEN = "given["
"""The beginning of the canonical key of a value that the command was given: `given[--lr]`, `given[config.yml:a.b]`."""


def given_key(name: str) -> str:
    """Return the canonical key of an option of the command, or of a value in one of its files."""
    return f"{GIVEN}{name}]"


def given_name(key: str) -> str:
    """Return the option, or the file and its key, that a canonical key names; empty for any other key."""
    return key[len(GIVEN) : -1] if key.startswith(GIVEN) else ""


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """What is done to a program that knows nothing of it."""

    values: dict[str, Any] = field(default_factory=dict)
    """The changes, by canonical key."""
    feeding: list[str] = field(default_factory=list)
    """`file:line` of each place where a loader is made that feeds training; without any, all loaders are taken to."""
    writable: list[str] = field(default_factory=list)
    """The folders that the program's trial really writes to. All else that it writes is thrown away with it."""
    epochs_end: str = ""
    """Why epochs end as the program has it (`slowstep.settings.epochs`); empty if they go on without end."""
    epoch_of_longest: bool = False
    """True if an epoch ends with the longest of the loaders that a step draws from; else with the shortest."""
    events: list[str] = field(default_factory=list)
    """The periodic events that are too rare for a trial's steps, and that a Trainer is made to do when asked.

    It does none of them by itself then."""
    micro_batches: int = 0
    """The backward passes of an optimizer step, as the survey counted them; 0 if that is not known."""
    meets_after: list[int] = field(default_factory=list)
    """The optimizer steps after which each rank meets the others, where only some have a loader; else empty."""
    seed: int = 0
    """The seed of what the program does not seed itself."""
    weights: str = ""
    """The folder in which trials leave models to each other that the program builds; empty if each builds its own."""
    weights_seconds: float = 0.0
    """The seconds from which on what a model takes to be built makes it worth leaving."""
