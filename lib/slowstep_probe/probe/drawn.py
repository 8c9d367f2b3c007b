"""The examples that samplers draw for the batches of loaders, which the shapes of a batch may not tell."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sized
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch.utils.data.dataloader as loading

from slowstep_probe.patches import Patches

AHEAD = 1024
"""The most batches of an iterator that are drawn and not yet given: those that its workers make."""


class Examples(NamedTuple):
    """The examples of a batch, as its sampler drew them."""

    number: int
    at_most: bool
    """True for an iterable data set, which may end within the batch."""


class Drawn:
    """Counts the examples that are drawn for each batch of a loader while it is attached.

    It relies on methods of PyTorch's iterators (torch 2.6 to 2.13) that are not public: `_next_index` draws, `_reset`
    begins another epoch, and `_next_data` makes a batch. Of an iterator that has others nothing is known.
    """

    def __init__(self) -> None:
        self._waiting: WeakKeyDictionary[Any, deque[Examples | None]] = WeakKeyDictionary()
        """What was drawn for batches that were not given so far, by their iterator."""
        self._last: WeakKeyDictionary[Any, Examples | None] = WeakKeyDictionary()

    def attach(self, patches: Patches) -> None:
        patches.look(loading._BaseDataLoaderIter, "_next_index", self._draws)
        patches.look(loading._BaseDataLoaderIter, "_reset", self._begins_anew)
        for kind in (loading._SingleProcessDataLoaderIter, loading._MultiProcessingDataLoaderIter):
            patches.around(kind, "_next_data", self._makes)

    def of_last(self, iterator: Any) -> Examples | None:
        """Return what was drawn for the batch that an iterator gave last; None if that is not known."""
        return self._last.get(iterator)

    def gives(self, iterator: Any, examples: Examples | None) -> None:
        """Note what was once drawn for a batch that an iterator seems to give now."""
        self._last[iterator] = examples

    def _draws(self, index: Any, iterator: Any) -> None:
        self._waiting.setdefault(iterator, deque(maxlen=AHEAD)).append(_examples(index, iterator))

    def _begins_anew(self, _: None, iterator: Any, *args: Any, **kwargs: Any) -> None:
        self._waiting.pop(iterator, None)

    def _makes(self, original: Callable[[Any], Any], iterator: Any) -> Any:
        try:
            return original(iterator)
        finally:
            waiting = self._waiting.get(iterator)
            self._last[iterator] = waiting.popleft() if waiting else None


def _examples(index: Any, iterator: Any) -> Examples | None:
    """Return how many examples an index stands for; None for a key that may stand for any number of them.

    A loader that makes no batches itself (`batch_size=None`) hands on what its sampler gives. A list of keys comes from
    a sampler of batches, and anything else is one key.
    """
    counts = isinstance(index, Sized) if iterator._auto_collation else isinstance(index, list)
    iterable = iterator._dataset_kind == loading._DatasetKind.Iterable
    return Examples(len(index), at_most=iterable) if counts and len(index) else None
