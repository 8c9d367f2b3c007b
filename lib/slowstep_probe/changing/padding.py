"""Columns of padding alone in batches of token sequences: whether there are any, and how to leave them out.

Where a mask says what padding is, and labels leave it out, training without it is the same. Any other batch may still
begin or end with columns that hold one value, as padding does. Only the program knows what they mean to its model.
"""

from __future__ import annotations

import contextlib
import copy
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import WeakSet

import torch
import torch.utils.data.dataloader as loading

from slowstep_probe.by_identity import ByIdentity
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.measured import WHY_NOT
from slowstep_probe.patches import ITERATORS, Patches
from slowstep_probe.places import CodePlace, here

TRIM = "dataset.trim_padding"
TRIM_CONSTANT = "dataset.trim_constant_columns"

MULTIPLE = 8
"""The lengths that sequences are trimmed to. Kernels of devices are at their best with multiples of it."""

LOOKS = 4
"""The first batches of a data set, of which each is looked at. A look takes up to some milliseconds, which count as
time of the batch. So of later ones fewer and fewer are looked at: the 8th, the 16th, the 32nd, ..."""

ON_DEVICE = "batches are made on a device, where a look at each would have the program wait for all that it launched"
"""The reason why columns are left out of no such batch: the trial would be slower by waits that nobody needs."""

IGNORED = -100
"""The label of positions that count in no loss."""

TOKENS = (torch.int64, torch.int32)
"""The types of tokens: those that an embedding takes."""

Cuts = dict[torch.Size, slice]
"""The columns that are kept of tensors, by the first two dimensions of those: (batch, length)."""


def length_needed(batch: Any) -> int | None:
    """Return the columns of a batch that hold more than padding, up to a `MULTIPLE`; None where none can be left out.

    The batch is a mapping with `input_ids` and `attention_mask`, (batch, length), padded on the right. All that tokens
    have must be one and the same behind the longest sequence; labels must be `IGNORED` there. A tensor with the length
    in another dimension says more than is known here.
    """
    if not isinstance(batch, dict | UserDict):
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


def columns_masked(batch: Any) -> Cuts:
    """Return the columns that a mask keeps, see `length_needed`; none of a batch with tensors inside of its values."""
    needed = length_needed(batch)
    if needed is None or len(list(_tensors(batch))) > sum(isinstance(one, torch.Tensor) for one in batch.values()):
        return {}
    return {batch["input_ids"].shape: slice(0, needed)}


def columns_varied(batch: Any) -> Cuts:
    """Return the columns between a first and a last run of one value; none of what can't be cut.

    A batch is a tensor, or a mapping or a sequence of batches. Where it holds tokens, (batch, length), all that tokens
    have must be one and the same in a run, which has a `MULTIPLE` of columns at least: a first token that all rows
    share is none.
    """
    tensors = list(_tensors(batch))
    if any(value.is_nested or value.is_sparse for value in tensors):
        return {}
    cuts = {}
    for shape in {value.shape for value in tensors if _may_be_tokens(value)}:
        length, group = shape[1], [value for value in tensors if _is_of_tokens(value, shape)]
        if any(_has(value, length, beside=not _is_of_tokens(value, shape)) for value in tensors):
            continue
        first, last = (_run(group, length, back) for back in (False, True))
        kept = MULTIPLE * -(-(length - first - last) // MULTIPLE)
        if first < length and kept <= length - MULTIPLE:
            start = min(first, length - kept)
            cuts[shape] = slice(start, start + kept)
    return cuts


def _tensors(batch: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a batch whose parts can be replaced."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, dict | UserDict):
        for value in batch.values():
            yield from _tensors(value)
    elif isinstance(batch, list | tuple) and not (batch and isinstance(batch[0], str | int | float)):
        for value in batch:
            yield from _tensors(value)


def _may_be_tokens(value: torch.Tensor) -> bool:
    """Return whether values may be tokens: more than the marks of a mask, or of classes that are chosen."""
    return value.dim() == 2 and value.dtype in TOKENS and value.numel() > 0 and int(value.max()) > 1


def _has(value: torch.Tensor, length: int, beside: bool) -> bool:
    """Return whether a tensor has the length in a dimension that stays; one `beside` those of tokens has it in any."""
    return length in value.shape[1 if beside else 2 :] or (beside and value.shape == (length,))


def _run(group: Iterable[torch.Tensor], length: int, back: bool) -> int:
    """Return how many of the first columns, or of the last ones, hold one value in each tensor; 0 if hardly any do."""
    run = length
    for value in sorted(group, key=torch.Tensor.dim):  # tokens first: where they differ, nothing large is looked at
        part = value[:, length - run :] if back else value[:, :run]
        edge = part[:1, -1:] if back else part[:1, :1]
        same = (part == edge).flatten(2).all(-1) if part.dim() > 2 else part == edge
        alike = same.all(0).long()
        run = int((alike.flip(0) if back else alike).cumprod(0).sum())
        if run < MULTIPLE:
            return 0
    return run


def on_device(batch: Any) -> bool:
    """Return whether a tensor of a batch lies on a device, on which whoever reads it has to wait."""
    return any(value.device.type != "cpu" for value in _tensors(batch))


def trimmed(batch: Any, columns: Callable[[Any], Cuts] = columns_masked) -> Any:
    """Return a batch without the columns that are not kept; the same batch where it is not known how to do that.

    One on a device stays as it is, see `ON_DEVICE`.
    """
    with contextlib.suppress(Exception):  # of an object of the program's own that answers in an unheard-of way
        if not on_device(batch) and (cuts := columns(batch)):
            return _cut(batch, cuts)
    return batch


def _cut(batch: Any, cuts: Cuts) -> Any:
    """Return a batch whose tensors are cut. What holds none of them is the same object, and the batch stays whole."""
    if isinstance(batch, torch.Tensor):
        if (columns := cuts.get(batch.shape[:2])) is None:
            return batch
        kept = batch[:, columns].contiguous()
        return kept.pin_memory() if batch.is_pinned() else kept
    if not any(value.shape[:2] in cuts for value in _tensors(batch)):
        return batch
    if isinstance(batch, dict | UserDict):
        shorter = copy.copy(batch)
        for name, value in batch.items():
            shorter[name] = _cut(value, cuts)
        return shorter
    parts = [_cut(value, cuts) for value in batch]
    return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)


WAYS: dict[str, Callable[[Any], Cuts]] = {TRIM: columns_masked, TRIM_CONSTANT: columns_varied}
"""The ways to tell the columns that are kept, by the settings that want them."""


class TrimPadding:
    """Has the loaders that feed training leave out columns of padding alone, or of one value, if that is wanted.

    It is done where the program takes a batch, since workers may be processes that don't know the kit.
    """

    def __init__(self, wanted: Wanted, feeds: Callable[[CodePlace], bool]):
        self.wanted, self.feeds = wanted, feeds
        self._ways = {key: way for key, way in WAYS.items() if wanted.values.get(key)}
        self._loaders: WeakSet[Any] = WeakSet()
        self._iterators: WeakSet[Any] = WeakSet()

    def attach(self, patches: Patches) -> None:
        if self._ways:
            patches.after(loading.DataLoader, "__init__", self._made)
            patches.after(loading.DataLoader, ITERATORS, self._iterated)
            patches.around(loading._BaseDataLoaderIter, "__next__", self._next)

    def _made(self, _: None, loader: Any, *args: Any, **kwargs: Any) -> None:
        at = here(loader)
        if self.feeds(at) and loader.batch_sampler is not None:
            self._loaders.add(loader)
            for key in self._ways:
                self.wanted.note(key, "torch.utils.data.DataLoader", False, True, place=at)

    def _iterated(self, iterator: Any, loader: Any) -> None:
        if loader in self._loaders and isinstance(iterator, loading._BaseDataLoaderIter):
            self._iterators.add(iterator)

    def _next(self, original: Callable[..., Any], iterator: Any) -> Any:
        batch = original(iterator)
        if iterator in self._iterators:
            for way in self._ways.values():
                batch = trimmed(batch, way)
        return batch


def _found(batch: Any, way: Callable[[Any], Cuts]) -> bool:
    with contextlib.suppress(Exception):
        return bool(way(batch))
    return False


class PaddedColumns:
    """Notes whether the batches that loaders give have columns of padding alone, or of one value.

    Nothing is looked at once the facts were asked for: a trial's blocks are timed after that.
    """

    def __init__(self) -> None:
        self._looks: ByIdentity[list[tuple[bool, bool]]] = ByIdentity()
        """Each data set, with whether a batch has something to leave out in each of the `WAYS`, batch by batch."""
        self._given_of: ByIdentity[int] = ByIdentity()
        """The batches of a data set so far."""
        self._on_device: ByIdentity[bool] = ByIdentity()
        """Whether a batch of a data set lay on a device."""
        self._asked = False

    def attach(self, patches: Patches) -> None:
        """Begin. It has to be attached after what trims batches."""
        patches.look(loading._BaseDataLoaderIter, "__next__", self._given)

    def _given(self, batch: Any, iterator: Any) -> None:
        if self._asked:
            return
        number = self._given_of[iterator._dataset] = self._given_of.get(iterator._dataset, 0) + 1
        if number <= LOOKS or number & (number - 1) == 0:
            self._on_device[iterator._dataset] = on_device(batch)
            look = tuple(_found(batch, way) for way in WAYS.values())
            self._looks.setdefault(iterator._dataset, []).append(look)

    def facts(self, loader: Any) -> dict[str, bool | str]:
        """Return whether one in two batches of a loader or more, of those that were looked at, had such columns.

        Those of one value are told where no mask says that they are padding. Of batches on a device it is told why
        nothing is left out of them.
        """
        self._asked = True
        known = getattr(loader, "batch_sampler", None) is not None
        looks = self._looks.get(loader.dataset, []) if known else []
        padded, constant = (2 * sum(look[way] for look in looks) > len(looks) for way in range(len(WAYS)))
        found = {"padded_columns": padded, "constant_columns": constant and not padded}
        why = ON_DEVICE if known and self._on_device.get(loader.dataset) else ""
        return found | ({f"{WHY_NOT}{fact}": why for fact in found} if why else {})
