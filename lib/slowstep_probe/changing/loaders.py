"""Changes of the loader that training draws from: its arguments, batches kept in memory, epochs without end."""

from __future__ import annotations

import copy
import gc
import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn
from weakref import WeakKeyDictionary

import torch
import torch.utils.data.dataloader as loading

from slowstep_probe.changing.intervention import KEYWORDS, NEED_WORKERS
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.looks import length_of
from slowstep_probe.own_time import time
from slowstep_probe.patches import ITERATORS, Patches
from slowstep_probe.places import CodePlace, here
from slowstep_probe.probe.drawn import Drawn, Examples
from slowstep_probe.trial.program_hooks import NotTestable

CACHED = "dataset.cached_batches"
BATCH_SIZE = "training_arguments.per_device_train_batch_size"

FILLING_SECONDS = 20.0
"""The seconds after which no more batches are taken into memory."""

Feeds = Callable[[CodePlace], bool]
"""Returns whether the loader that is made at a place feeds training."""


class LoaderArguments:
    """Changes the arguments with which the loaders of training are made."""

    def __init__(self, wanted: Wanted, feeds: Feeds):
        self.wanted, self.feeds = wanted, feeds
        self._signature = inspect.signature(loading.DataLoader.__init__)
        self._drawing: WeakKeyDictionary[Any, CodePlace] = WeakKeyDictionary()
        """PyTorch's own samplers of batches that no loader has made for itself, with their places."""
        self._making = False

    def attach(self, patches: Patches) -> None:
        if any(key in self.wanted for key in KEYWORDS):
            patches.around(loading.DataLoader, "__init__", self._made)
        if BATCH_SIZE in self.wanted:
            patches.look(loading.BatchSampler, "__init__", self._draws)

    def _draws(self, result: None, sampler: Any, *args: Any, **kwargs: Any) -> None:
        if not self._making and type(sampler) is loading.BatchSampler:
            self._drawing[sampler] = here(sampler)

    def _made(self, original: Callable[..., None], loader: Any, *args: Any, **kwargs: Any) -> None:
        self._making = True
        try:
            self._make(original, loader, *args, **kwargs)
        finally:
            self._making = False

    def _make(self, original: Callable[..., None], loader: Any, *args: Any, **kwargs: Any) -> None:
        if not self.feeds(here(loader)):
            original(loader, *args, **kwargs)
            return
        bound = self._signature.bind_partial(loader, *args, **kwargs)
        given = bound.arguments
        draws = next((name for name in ("batch_sampler", "sampler") if self._is_known(given.get(name))), None)
        makes_batches = given.get("batch_sampler") is None and given.get("batch_size", 1) is not None
        for key, keyword in KEYWORDS.items():
            if key in self.wanted and (keyword != "batch_size" or makes_batches):
                before = given.get(keyword, self._signature.parameters[keyword].default)
                given[keyword] = self.wanted[key]
                self.wanted.note_made(key, loading.DataLoader, loader, before, self.wanted[key], keyword, args)
        if draws and not makes_batches:
            given[draws] = self._drawn_otherwise(given[draws])
        if not given.get("num_workers"):
            for keyword in NEED_WORKERS:
                given.pop(keyword, None)
        original(*bound.args, **bound.kwargs)

    def _is_known(self, draws: Any) -> bool:
        return type(draws) is loading.BatchSampler and draws in self._drawing

    def _drawn_otherwise(self, draws: Any) -> Any:
        """Return a sampler like this one of PyTorch's that draws batches of the wanted size."""
        size, place = self.wanted[BATCH_SIZE], self._drawing[draws]
        name = "torch.utils.data.BatchSampler"
        self.wanted.note(BATCH_SIZE, name, draws.batch_size, size, "batch_size", slot=1, place=place)
        other = copy.copy(draws)
        other.batch_size = size
        return other


class _Kept(NamedTuple):
    """A batch in memory."""

    batch: Any
    versions: list[int]
    """How often each of its tensors had been edited in place."""
    examples: Examples | None
    """What was drawn for it."""


class CachedBatches:
    """Takes some batches of training into memory, and gives them again and again without asking the loader."""

    def __init__(
        self,
        wanted: Wanted,
        has_fed: Callable[[Any], bool],
        goes_on: Callable[[Any], bool],
        give_up: Callable[[Exception], NoReturn],
        drawn: Drawn,
    ):
        self.number = int(wanted.values.get(CACHED) or 0)
        self.has_fed, self.goes_on, self.give_up, self.drawn = has_fed, goes_on, give_up, drawn
        self.given = 0
        """Batches that were given from memory."""
        self.beyond_epoch = False
        """True if it gave more batches in an epoch than the loader has."""
        self._loader_of: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._of_epoch: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        """Batches that each iterator has given in its epoch."""
        self._kept: WeakKeyDictionary[Any, list[_Kept]] = WeakKeyDictionary()

    def attach(self, patches: Patches) -> None:
        if self.number:
            patches.after(loading.DataLoader, ITERATORS, self._iterated)
            patches.around(loading._BaseDataLoaderIter, "__next__", self._next)

    def _iterated(self, iterator: Any, loader: Any) -> None:
        if isinstance(iterator, loading._BaseDataLoaderIter):
            self._loader_of[iterator], self._of_epoch[iterator] = loader, 0

    def _next(self, original: Callable[..., Any], iterator: Any) -> Any:
        loader = self._loader_of.get(iterator)
        if loader is None:
            return original(iterator)
        self._of_epoch[iterator] += 1
        if not self.has_fed(iterator):
            return original(iterator)
        if self._of_epoch[iterator] > (length_of(loader) or math.inf):
            if not self.goes_on(iterator):
                raise StopIteration  # as the loader itself would end
            self.beyond_epoch = True
        kept = self._kept.get(loader) or self._kept.setdefault(loader, self._filled(original, iterator))
        batch, versions, examples = kept[self.given % len(kept)]
        self.drawn.gives(iterator, examples)
        if _versions(batch) != versions:
            self.give_up(NotTestable("the loop edits its batches in place, so none can be used again"))
        self.given += 1
        if isinstance(batch, torch.Tensor):
            return batch  # a copy would have edits of its own, which do reach the numbers
        return copy.copy(batch)  # the loop may pop keys from it

    def _filled(self, original: Callable[..., Any], iterator: Any) -> list[_Kept]:
        """Take batches from an iterator until there are enough, it ends, or it has taken too long."""
        kept: list[_Kept] = []
        began = time.monotonic()
        while len(kept) < self.number and (not kept or time.monotonic() - began < FILLING_SECONDS):
            try:
                batch = original(iterator)
            except StopIteration:
                break
            kept.append(_Kept(batch, _versions(batch), self.drawn.of_last(iterator)))
        if not kept:
            raise StopIteration
        return kept


class EndlessEpochs:
    """Lets the loop over a loader that feeds training go on after the loader's last batch, with the next epoch's.

    The loader itself is asked for the iterator of the next epoch, so what its epochs begin with (workers to start, an
    order to draw) happens as it would. A loop ends as it should where `goes_on` says so of its iterator, and so does an
    epoch that `itertools.cycle` keeps: it gives the same batches again without asking, and would keep those of an
    endless epoch until the memory is full.
    """

    def __init__(self, goes_on: Callable[[Any], bool]):
        self.goes_on = goes_on
        self.epochs = 0
        """Epochs that were begun beyond those of the program."""

    def attach(self, patches: Patches) -> None:
        """Begin. It has to be attached after the probe, which then marks all that happens in here."""
        patches.around(loading.DataLoader, ITERATORS, self._iterated)

    def _iterated(self, original: Callable[..., Any], loader: Any) -> Any:
        first = original(loader)
        return _Endless(self, lambda: original(loader), loader, first)


class _Endless:
    """What the loop iterates over. The iterators inside it come to their ends and are made anew."""

    def __init__(self, epochs: EndlessEpochs, begin: Callable[[], Any], loader: Any, inner: Any):
        self._epochs, self._begin, self._loader, self._inner = epochs, begin, loader, inner
        self._kept: bool | None = None
        """True if what it gives is kept and given again; None until its first epoch has ended."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)

    def __next__(self) -> Any:
        try:
            return next(self._inner)
        except StopIteration:
            if not self._epochs.goes_on(self._inner):
                raise
            if self._kept is None:  # all objects are gone over for that
                self._kept = _is_kept(self)
            if self._kept:
                raise
        self._epochs.epochs += 1
        if hasattr(self._loader.sampler, "set_epoch"):
            self._loader.sampler.set_epoch(self._epochs.epochs)
        self._inner = self._begin()
        return next(self._inner)


def _is_kept(iterator: Any) -> bool:
    """Return whether `itertools.cycle` draws from an iterator."""
    return any(type(one) is itertools.cycle for one in gc.get_referrers(iterator))


def _versions(batch: Any) -> list[int]:
    """Return how often each tensor of a batch was edited in place."""
    if isinstance(batch, torch.Tensor):
        return [batch._version]
    if isinstance(batch, dict) or hasattr(batch, "keys"):
        return [version for key in batch.keys() for version in _versions(batch[key])]  # noqa: SIM118
    if isinstance(batch, (list, tuple)):
        return [version for one in batch for version in _versions(one)]
    return []
