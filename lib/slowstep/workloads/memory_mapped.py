"""A small convolutional network trained on memory-mapped samples, as large tabular and game data are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForImageClassification, set_seed

from slowstep.workloads import data
from slowstep.workloads.finetune import FineTune
from slowstep.workloads.stdlib_text import cache_folder

BOARD = 9
"""The number of rows and of columns of a sample."""

BUILT_IN = "random_records"


class Records(torch.utils.data.Dataset):
    """The samples of a .npy file of structured items (`planes`, `label`). It is opened where they are read."""

    def __init__(self, path: Path, samples: int | None):
        self.path, self.mapped = path, None
        self.number = min(n for n in (len(np.load(path, mmap_mode="r")), samples) if n)

    def _file(self) -> np.ndarray:
        if self.mapped is None:  # each loader worker opens it for itself
            self.mapped = np.load(self.path, mmap_mode="r")
        return self.mapped

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: int) -> np.void:
        return self._file()[index]

    def __getitems__(self, indices: Sequence[int]) -> list[np.void]:
        """Return a batch in the order of `indices`. It is read at once, in the order of the file."""
        order = np.argsort(indices)
        read = self._file()[np.asarray(indices)[order]]
        return list(read[np.argsort(order)])


class Stack:
    """Makes a batch of samples: `pixel_values` (batch, channels, BOARD, BOARD) and `labels` (batch,)."""

    length = None
    """The length to pad to: none, since these samples have no tokens."""

    def __call__(self, records: list[np.void]) -> data.Batch:
        planes = np.stack([r["planes"] for r in records])
        labels = np.array([r["label"] for r in records], dtype=np.int64)
        return data.Batch(pixel_values=torch.from_numpy(planes).float(), labels=torch.from_numpy(labels))


class MemoryMappedWorkload(FineTune):
    """A workload on the .npy file `dataset.name_or_path`, or on `random_records`, which are made on first use."""

    def load(self) -> tuple[Records, Callable[[list[Any]], data.Batch]]:
        d, config = self.settings.dataset, self._config()
        path = d.name_or_path
        if path == BUILT_IN:
            path = built_in(config.num_channels, config.num_labels, d.num_samples)
        sizes = [n for n in (d.num_samples, self.settings.job.samples) if n]
        return Records(Path(path), min(sizes, default=None)), Stack()

    def build_model(self) -> None:
        self.device = self.arguments.device.type
        set_seed(self.arguments.seed)
        with self.arguments.device:
            dtype = getattr(torch, self.settings.model.dtype)
            self.model = AutoModelForImageClassification.from_config(self._config(), dtype=dtype)

    def observe(self) -> dict[str, Any]:
        return super().observe() | {"max_length": None, "padding": None}  # records have no tokens

    def _config(self) -> Any:
        return AutoConfig.for_model(self.settings.model.model_type, **self.settings.model.config)


def built_in(channels: int, labels: int, samples: int | None) -> Path:
    """Return a file of random samples, made on first use. What they hold does not change how long they take."""
    number = samples or 20_000
    path = cache_folder() / f"records-{channels}x{BOARD}x{BOARD}-{number}.npy"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = np.dtype([("planes", np.uint8, (channels, BOARD, BOARD)), ("label", np.int16)])
        unfinished = path.with_suffix(f".{np.random.default_rng().integers(2**32)}.tmp")
        records = np.lib.format.open_memmap(unfinished, mode="w+", dtype=kind, shape=(number,))
        rng = np.random.default_rng(0)
        for start in range(0, number, 10_000):
            part = records[start : start + 10_000]
            part["planes"] = rng.integers(0, 2, part["planes"].shape, dtype=np.uint8)
            part["label"] = rng.integers(0, labels, len(part), dtype=np.int16)
        records.flush()
        unfinished.rename(path)
    return path
