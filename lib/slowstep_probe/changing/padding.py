"""Columns of padding alone in batches of token sequences: whether there are any, and how to leave them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.utils.data.dataloader as loading

from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.patches import Patches
from slowstep_probe.places import CodePlace, here

TRIM = "dataset.trim_padding"

MULTIPLE = 8
"""The lengths that sequences are trimmed to. Kernels of devices are at their best with multiples of it."""

LOOKS = 64
"""The batches of a data set that are looked at."""

IGNORED = -100
"""The label of positions that count in no loss."""


def length_needed(batch: Any) -> int | None:
    """Return the columns of a batch that hold more than padding, up to a `MULTIPLE`; None where none can be left out.

    The batch is a mapping with `input_ids` and `attention_mask`, (batch, length), padded on the right. Labels of what
    is left out have to be `IGNORED`. A tensor with the length in another dimension says more than is known here.
    """
    if not isinstance(batch, Mapping):
        return None
    ids, mask, labels = (batch.get(name) for name in ("input_ids", "attention_mask", "labels"))
    if not (isinstance(ids, torch.Tensor) and isinstance(mask, torch.Tensor) and ids.dim() == 2 == mask.dim()):
        return None
    length = ids.shape[1]
    if mask.shape != ids.shape or any(length in one.shape[2:] for one in batch.values() if hasattr(one, "shape")):
        return None
    used = torch.nonzero(mask.any(0))
    needed = MULTIPLE * -(-(int(used.max()) + 1) // MULTIPLE) if len(used) else length
    of_tokens = isinstance(labels, torch.Tensor) and labels.dim() > 1 and labels.shape[1] == length
    if needed >= length or (of_tokens and bool((labels[:, needed:] != IGNORED).any())):
        return None
    return needed


class Trimmed:
    """A loader's `collate_fn` whose batches have no columns of padding alone. It goes to workers with the loader."""

    def __init__(self, collate_fn: Callable[[Any], Any]):
        self.collate_fn = collate_fn

    def __call__(self, examples: Any) -> Any:
        batch = self.collate_fn(examples)
        if (needed := length_needed(batch)) is None:
            return batch
        rows, length = batch["input_ids"].shape
        for name, value in batch.items():
            if isinstance(value, torch.Tensor) and value.shape[:2] == (rows, length):
                batch[name] = value[:, :needed].contiguous()
        return batch


class TrimPadding:
    """Has the loaders that feed training leave out columns of padding alone, if that is wanted."""

    def __init__(self, wanted: Wanted, feeds: Callable[[CodePlace], bool]):
        self.wanted, self.feeds = wanted, feeds

    def attach(self, patches: Patches) -> None:
        """Begin."""
        if self.wanted.values.get(TRIM):
            patches.after(loading.DataLoader, "__init__", self._made)

    def _made(self, _: None, loader: Any, *args: Any, **kwargs: Any) -> None:
        if self.feeds(here()) and loader.batch_sampler is not None:
            loader.collate_fn = Trimmed(loader.collate_fn)
            self.wanted.note(TRIM, "torch.utils.data.DataLoader", False, True)


class PaddedColumns:
    """Notes whether the batches that loaders give have columns of padding alone."""

    def __init__(self) -> None:
        self._looks: dict[int, list[bool]] = {}
        """By the identity of the data set."""

    def attach(self, patches: Patches) -> None:
        """Begin."""
        patches.after(loading._BaseDataLoaderIter, "__next__", self._given)

    def _given(self, batch: Any, iterator: Any) -> None:
        looks = self._looks.setdefault(id(iterator._dataset), [])
        if len(looks) < LOOKS:
            looks.append(length_needed(batch) is not None)

    def of(self, loader: Any) -> bool:
        """Return whether one in two batches of a loader or more, of the first ones, had such columns."""
        looks = self._looks.get(id(getattr(loader, "dataset", None)), [])
        return 2 * sum(looks) > len(looks)
