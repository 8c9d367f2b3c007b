"""Facts about the batches, by the live examples and their collator. The probe tells who makes the batches."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import datasets
import numpy as np

from slowstep.workloads import data, lengths
from slowstep.workloads.observed.fine_tune_protocol import Parts
from slowstep_probe.observed import sampling

EPOCH_IN_BLOCK = 200
"""The most steps of an epoch that is measured as a whole if there are loader workers."""


def data_facts(w: Parts) -> dict[str, Any]:
    """Return facts about the examples and their batches, and the amount of them in an epoch."""
    cached = isinstance(w.collate, data.Cached)
    seen = lengths.lengths(w.source, w.shared)
    fetched = w.collate.fresh if cached else w.examples
    return {
        "cached_batches": len(w.collate.batches) if cached else 0,
        "tokenize": "on_the_fly" if isinstance(w.source, data.OnTheFly) else "once",
        "batched_fetching": bool(getattr(fetched, "__getitems__", None)),
        "storage": _storage(w.source, w.folder),
        "padding": _padding(w),
        "max_length": _max_length(w, seen),
        **_epoch(w, seen),
    }


def _max_length(w: Parts, seen: np.ndarray | None) -> int | None:
    """Return the tokens at which the encoder cuts examples, or more if one is longer; None for data without tokens."""
    if w.encode is None:
        return None
    return max(w.encode.max_length, 0 if seen is None else int(seen.max()))


def steps_of_epoch(w: Parts) -> int:
    """Return the optimizer steps in the job's epoch. A trial's epoch is as long."""
    return math.ceil(len(w.loader) / w.arguments.gradient_accumulation_steps)


def period(w: Parts, *every: int) -> int:
    """Return the steps after which a trial repeats itself.

    An event comes after each number of steps in `every`. With workers, the start of a short epoch is one more event.
    """
    steps, found = steps_of_epoch(w), list(every)
    if w.arguments.dataloader_num_workers and 0 < steps <= EPOCH_IN_BLOCK:
        found.append(steps)  # whole epochs hold as many starts as the job's
    return math.lcm(*found)


def _epoch(w: Parts, seen: np.ndarray | None) -> dict[str, int]:
    """Return the positions of the job's epoch, and the steps after which the trial's examples come again.

    The blocks see a small part of an epoch.
    """
    batch, batches = w.arguments.per_device_train_batch_size, len(w.loader)
    together = batch * w.arguments.world_size  # each process has a loader of its own, with its part of the batches
    once = math.ceil(len(w.source) / (together * w.arguments.gradient_accumulation_steps))
    found = {"distinct_steps": once}
    if isinstance(w.collate, data.Cached):
        return found
    longest = lengths.longest_of_alike if sampling(w.loader) == "group_by_length" else lengths.longest_of
    length = w.collate.length if w.collate.length or seen is None else longest(seen, batch)
    if length is not None:
        found["epoch_padded_tokens"] = round(min(len(w.examples), batches * together) * length)
    return found


def _storage(source: Any, folder: Path) -> str:
    """Return the storage that examples are read from, by the files that hold them. No files mean memory."""
    held = getattr(source, "raw", source)
    if isinstance(held, list):
        return "in_memory"
    if not isinstance(held, datasets.Dataset):
        return "a dataset of one's own"
    files = held.cache_files
    if not files:
        return "in_memory"
    return "local_copy" if all(Path(f["filename"]).is_relative_to(folder) for f in files) else "as_is"


def _padding(w: Parts) -> str:
    """Return the padding, by the live collator and examples."""
    collate = w.collate.collate if isinstance(w.collate, data.Cached) else w.collate
    if isinstance(w.source, list):
        return "packing"
    return "max_length" if collate.length else "longest"
