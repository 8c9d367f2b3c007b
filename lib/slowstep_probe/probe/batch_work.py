"""The amount of work in a batch, read from the batch as it leaves the loader.

Tokens of a batch that lies on a device are counted there, and read when a block has ended: to read them at once would
make the program wait for all that it has launched.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

from slowstep_probe.measured import Work
from slowstep_probe.probe.drawn import Examples
from slowstep_probe.probe.without_mask import doubtful_tokens, has_padding


def count(batch: Any, drawn: Examples | None = None) -> Work:
    """Return the samples and tokens of `batch`: a mapping with `input_ids` (batch, length), or any nest of tensors.

    A batch may say itself what its tensors don't show, as attributes: `samples` (examples packed into its
    sequences) and `cut_tokens` (what truncation removed). Else its samples are the examples that were `drawn` for it.
    Where that is not known, they are told by its shapes.
    """
    ids = batch.get("input_ids") if isinstance(batch, Mapping) else None
    if ids is None or not hasattr(ids, "numel"):
        return Work(samples=_said(batch) or _drawn(batch, drawn) or _unstacked(batch) or _first_dimension(batch))
    mask, labels = batch.get("attention_mask"), batch.get("labels")
    return Work(
        samples=_said(batch) or _drawn(batch, drawn) or (ids.shape[0] if ids.dim() > 1 else 1),
        padded_tokens=ids.numel(),
        useful_tokens=ids.numel() if mask is None else _kept(mask, ids),
        loss_tokens=None if labels is None else _here((labels != -100).sum()),
        cut_tokens=getattr(batch, "cut_tokens", None),
        doubtful_tokens=doubtful_tokens(ids) if mask is None else 0,
    )


UNKNOWN = -1
"""Stands for tokens that are not known, in a count that lies on a device."""


def _kept(mask: Any, ids: torch.Tensor) -> Any:
    """Return the tokens that an attention mask keeps; None or `UNKNOWN` if it does not say that of each token.

    A mask that is added to scores, or one of each two tokens, says something else. One that keeps nothing marks what is
    padding.
    """
    if not isinstance(mask, torch.Tensor) or mask.shape != ids.shape or not mask.numel():
        return None
    kept, lowest = torch.count_nonzero(mask), mask.min()
    if kept.device.type == "cpu":  # each operation takes a while beside a short step
        return int(kept) or None if lowest.item() >= 0 else None
    return torch.where((lowest < 0) | (kept == 0), UNKNOWN, kept)


def _here(count: torch.Tensor) -> Any:
    """Return a count as a number, or as it is if it lies on a device."""
    return _read(count) if count.device.type == "cpu" else count


def count_inputs(args: tuple[Any, ...], kwargs: Mapping[str, Any], module: torch.nn.Module | None = None) -> Work:
    """Return the work in what a model is called with, for training that draws from no loader.

    A tensor of whole numbers with two dimensions, (batch, length), is a batch of tokens. Modules that say so
    (`batch_first`, as PyTorch's recurrent ones do) take sequences as (length, batch, width).
    """
    args, kwargs = tuple(map(unwrapped, args)), {name: unwrapped(value) for name, value in kwargs.items()}
    if "input_ids" in kwargs:
        return count(kwargs)
    first = args[0] if args else next((v for v in kwargs.values() if isinstance(v, torch.Tensor)), None)
    if isinstance(first, torch.Tensor) and first.dim() == 2 and not first.is_floating_point():
        return count({"input_ids": first})
    if isinstance(first, PackedSequence):
        return Work(samples=int(first.batch_sizes[0]))
    if isinstance(first, torch.Tensor) and first.dim() == 3 and getattr(module, "batch_first", None) is False:
        return Work(samples=first.shape[1])
    # the arguments of a call are parts of a batch, and no list of examples
    return count(dict(enumerate(args)) | kwargs)


def can_learn(module: torch.nn.Module | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call of a module can give gradients, by its weights and its inputs; True if no module is known.

    A value network that is frozen while it judges gives none. A module without weights may have them from elsewhere.
    """
    if module is None:
        return True
    every = chain(args, kwargs.values(), module.parameters())  # the first weight mostly tells
    return any(getattr(one, "requires_grad", False) is True for one in every)


def unwrapped(value: Any) -> Any:
    """Return the tensor within those that torch.func's transformations hand to a function; anything else as it is."""
    known = getattr(torch._C, "_functorch", None)
    while known is not None and isinstance(value, torch.Tensor) and known.is_functorch_wrapped_tensor(value):
        value = known.get_unwrapped(value)
    return value


def total(works: list[Work]) -> Work:
    """Return the sum of `works`. A count that is missing in one batch is missing in the sum.

    So are useful tokens where too many are doubtful. Counts that lie on a device are read here.
    """
    if not works:
        return Work()
    names = ("padded_tokens", "useful_tokens", "loss_tokens", "cut_tokens")
    columns = {name: [_read(getattr(w, name)) for w in works] for name in names}
    sums = {name: None if None in column else sum(column) for name, column in columns.items()}
    doubtful = sum(w.doubtful_tokens() if callable(w.doubtful_tokens) else w.doubtful_tokens for w in works)
    if has_padding(doubtful, sums["padded_tokens"]):
        sums["useful_tokens"] = None
    return Work(samples=sum(w.samples for w in works), doubtful_tokens=doubtful, **sums)


def _read(count: Any) -> int | None:
    """Return a count as a number, wherever it lies; None if it is not known."""
    number = int(count) if isinstance(count, torch.Tensor) else count
    return None if number == UNKNOWN else number


CHANNELS = (1, 3, 4)
"""The first dimensions of an image: grey, in colours, with transparency."""


def _drawn(batch: Any, drawn: Examples | None) -> int:
    """Return the examples that were drawn for a batch; 0 if that is not known.

    An iterable data set may have ended within the batch. It has if no length in the batch is the number that was asked
    for, and if all of the batch agrees on a smaller one.
    """
    if drawn is None or not drawn.at_most or drawn.number in _lengths(batch):
        return drawn.number if drawn else 0
    firsts = {tensor.shape[0] for tensor in tensors(batch) if tensor.dim()}
    agreed = _unstacked(batch) or (firsts.pop() if len(firsts) == 1 else 0)
    return agreed if 1 < agreed < drawn.number else drawn.number


def _lengths(batch: Any) -> set[int]:
    """Return the lengths of all sequences in a nest, and those of all dimensions of its tensors."""
    if isinstance(batch, torch.Tensor):
        return set(batch.shape)
    own = {len(batch)} if isinstance(batch, list | tuple) else set()
    return own.union(*map(_lengths, _items(batch)))


def tensors(batch: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a nest."""
    if isinstance(batch, torch.Tensor):
        yield batch
    for item in _items(batch):
        yield from tensors(item)


def _first_dimension(batch: Any) -> int:
    """Return the length of the first tensor in a nest of mappings and sequences; 0 if there is none."""
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.dim() else 1
    return next((n for n in map(_first_dimension, _items(batch)) if n), 0)


def _unstacked(batch: Any) -> int:
    """Return the length of a sequence of examples that nobody stacked, in a nest; 0 if there is none.

    Its items have the same keys, or are tensors of one kind whose first dimensions differ: the parts of a stacked batch
    have keys of their own, and most share their first dimension. More images than each has channels are a sequence,
    too. Two tensors of unlike lengths are none, since they may as well be sources and targets, or nodes and edges.
    """
    if isinstance(batch, list | tuple) and len(batch) > 1 and (_alike(batch) or _ragged(batch) or _images(batch)):
        return len(batch)
    return next((n for n in map(_unstacked, _items(batch)) if n), 0)


def _said(batch: Any) -> int | None:
    """Return the samples of a batch that knows them by an attribute: the kit's own, or that of a batch of graphs."""
    said = (getattr(batch, name, None) for name in ("samples", "num_graphs"))
    return next((number for number in said if isinstance(number, int) and number), None)


def _items(nest: Any) -> Iterable[Any]:
    if isinstance(nest, Mapping):
        return nest.values()
    if dataclasses.is_dataclass(nest) and not isinstance(nest, type):
        return [getattr(nest, field.name, None) for field in dataclasses.fields(nest)]
    return nest if isinstance(nest, list | tuple) else ()


def _images(items: Sequence[Any]) -> bool:
    tensors = all(isinstance(item, torch.Tensor) and item.dim() == 3 for item in items)
    return (
        tensors
        and len({(item.shape[0], item.dtype) for item in items}) == 1
        and len(items) > items[0].shape[0] in CHANNELS
    )


def _alike(items: Sequence[Any]) -> bool:
    return all(isinstance(item, Mapping) and item.keys() == items[0].keys() for item in items)


PAIR = 2
"""Up to two tensors of unlike lengths are more likely parts of a batch than examples."""


def _ragged(items: Sequence[Any]) -> bool:
    tensors = all(isinstance(item, torch.Tensor) and item.dim() for item in items)
    kinds = {(item.dim(), item.dtype) for item in items} if tensors else ()
    return len(items) > PAIR and len(kinds) == 1 and len({item.shape[0] for item in items}) > 1
