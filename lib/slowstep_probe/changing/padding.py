"""Columns of padding alone in batches of token sequences: whether there are any, and how to leave them out."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

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

    The batch is a mapping with `input_ids` and `attention_mask`, (batch, length), padded on the right. All that tokens
    have must be one and the same behind the longest sequence; labels must be `IGNORED` there. A tensor with the length
    in another dimension says more than is known here.
    """
    if not isinstance(batch, Mapping):
        return None
    tensors = {name: value for name, value in batch.items() if isinstance(value, torch.Tensor)}
    ids, mask = tensors.get("input_ids"), tensors.get("attention_mask")
    if ids is None or mask is None or any(value.is_nested or value.is_sparse for value in tensors.values()):
        return None
    if ids.dim() != 2 or mask.shape != ids.shape or bool((mask < 0).any()):
        return None
    length = ids.shape[1]
    used = torch.nonzero(mask.any(0))
    needed = MULTIPLE * -(-(int(used.max()) + 1) // MULTIPLE) if len(used) else length
    if needed >= length or any(length in value.shape[2:] for value in tensors.values()):
        return None
    behind = {name: value[:, needed:] for name, value in tensors.items() if _is_of_tokens(value, ids.shape)}
    alike = all(bool((value == value.flatten()[0]).all()) for value in behind.values())
    ignored = "labels" not in behind or bool((behind["labels"] == IGNORED).all())
    return needed if alike and ignored else None


def _is_of_tokens(value: Any, shape: torch.Size) -> bool:
    return isinstance(value, torch.Tensor) and value.shape[:2] == shape


def trimmed(batch: Any) -> Any:
    """Return a batch without columns of padding alone; the same batch where it is not known how to leave them out."""
    with contextlib.suppress(Exception):  # of an object of the program's own that answers in an unheard-of way
        if (needed := length_needed(batch)) is not None:
            shape = batch["input_ids"].shape
            cut = {name: _cut(value, needed) for name, value in batch.items() if _is_of_tokens(value, shape)}
            shorter = copy.copy(batch)
            for name, value in cut.items():
                shorter[name] = value
            return shorter
    return batch


def _cut(value: torch.Tensor, needed: int) -> torch.Tensor:
    kept = value[:, :needed].contiguous()
    return kept.pin_memory() if value.is_pinned() else kept


class TrimPadding:
    """Has the loaders that feed training leave out columns of padding alone, if that is wanted.

    It is done where the program takes a batch, since workers may be processes that don't know the kit.
    """

    def __init__(self, wanted: Wanted, feeds: Callable[[CodePlace], bool]):
        self.wanted, self.feeds = wanted, feeds
        self._loaders: WeakSet[Any] = WeakSet()
        self._iterators: WeakSet[Any] = WeakSet()

    def attach(self, patches: Patches) -> None:
        """Begin."""
        if self.wanted.values.get(TRIM):
            patches.after(loading.DataLoader, "__init__", self._made)
            patches.after(loading.DataLoader, "__iter__", self._iterated)
            patches.around(loading._BaseDataLoaderIter, "__next__", self._next)

    def _made(self, _: None, loader: Any, *args: Any, **kwargs: Any) -> None:
        if self.feeds(here()) and loader.batch_sampler is not None:
            self._loaders.add(loader)
            self.wanted.note(TRIM, "torch.utils.data.DataLoader", False, True)

    def _iterated(self, iterator: Any, loader: Any) -> None:
        if loader in self._loaders and isinstance(iterator, loading._BaseDataLoaderIter):
            self._iterators.add(iterator)

    def _next(self, original: Callable[..., Any], iterator: Any) -> Any:
        batch = original(iterator)
        return trimmed(batch) if iterator in self._iterators else batch


class PaddedColumns:
    """Notes whether the batches that loaders give have columns of padding alone."""

    def __init__(self) -> None:
        self._looks: dict[int, list[bool]] = {}
        """By the identity of the data set."""

    def attach(self, patches: Patches) -> None:
        """Begin. It has to be attached after what trims batches."""
        patches.after(loading._BaseDataLoaderIter, "__next__", self._given)

    def _given(self, batch: Any, iterator: Any) -> None:
        looks = self._looks.setdefault(id(iterator._dataset), [])
        if len(looks) < LOOKS:
            looks.append(trimmed(batch) is not batch)

    def of(self, loader: Any) -> bool:
        """Return whether one in two batches of a loader or more, of the first ones, had such columns."""
        if getattr(loader, "batch_sampler", None) is None:
            return False
        looks = self._looks.get(id(loader.dataset), [])
        return 2 * sum(looks) > len(looks)
