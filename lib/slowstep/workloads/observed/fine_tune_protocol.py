"""The parts of a fine-tune that facts are read from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

from slowstep.settings import Settings
from slowstep.workloads import data


class Parts(Protocol):
    """A fine-tune that trains: its data, its collator, and its Trainer."""

    settings: Settings
    folder: Path
    """The trial's own folder."""
    shared: Path | None
    """The folder of what the trials of one measurer find out once for all of them."""
    arguments: TrainingArguments
    trainer: Trainer
    source: Sequence[Any]
    """The job's examples."""
    examples: Sequence[Any]
    """The examples that the trial trains on: an epoch of the job, or the indices of cached batches."""
    collate: Any
    """The collator, which may hold batches that were made before."""
    encode: data.Encoder | None
    """The encoder of the examples; None for data without tokens."""

    @property
    def loader(self) -> DataLoader:
        """The loader that training draws from."""
