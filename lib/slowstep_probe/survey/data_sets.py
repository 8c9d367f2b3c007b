"""The data sets that loaders go over: what workers could not share of them, or would not see."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.utils.checkpoint
import torch.utils.data
import torch.utils.data.dataloader as loading

from slowstep_probe.by_identity import ByIdentity, identity, reference
from slowstep_probe.data_sets.changes import ChangesBetween, own_sampler
from slowstep_probe.data_sets.held import innermost
from slowstep_probe.data_sets.kept import KeptItems
from slowstep_probe.data_sets.open_files import opened
from slowstep_probe.data_sets.own_counts import OwnCounts, trained_within
from slowstep_probe.data_sets.own_draws import OwnDraws
from slowstep_probe.data_sets.shared_places import SharedPlaces
from slowstep_probe.looks import looking
from slowstep_probe.patches import ITERATORS, Patches


class DataSets:
    """Notes what a program does with its data sets. `trained` yields the weights that optimizers update."""

    def __init__(self, trained: Callable[[], Iterable[torch.Tensor]]) -> None:
        self._trained = trained
        self.of_loader: dict[int, int] = {}
        """The identity of the data set of each loader, by that of the loader."""
        self._asked_worker = mmap.mmap(-1, 1)
        """A byte that loader workers share: 1 once something has asked which worker it runs in."""
        self._changes = ChangesBetween()
        self._draws, self._counts, self._kept = OwnDraws(), OwnCounts(), KeptItems()
        self._sampling = ChangesBetween(numbers=False)
        """What the program changes in samplers of its own."""
        self._samplers: ByIdentity[Callable[[], Any]] = ByIdentity()
        """Such a sampler as long as it lives, by the data set whose batches it chooses."""
        self._places = SharedPlaces()
        noted = (self._changes, self._draws, self._counts, self._kept, self._places)
        self._before = [looking(one.asked) for one in noted]
        self._afterwards = [looking(one.made) for one in reversed(noted)]
        self._opened: ByIdentity[str] = ByIdentity()
        """The attribute by which a data set held an open file before its first batch."""

    def attach(self, patches: Patches) -> None:
        patches.around(torch.utils.data.DataLoader, ITERATORS, self._epoch_asked)
        patches.around(loading._BaseDataLoaderIter, "__next__", self._batch_asked)
        patches.look(torch.utils.data, "get_worker_info", self._asks_for_its_worker)

    def note(self, loader: Any) -> None:
        """Note the data set of a loader."""
        self.of_loader[identity(loader)] = identity(loader.dataset)

    def is_repeated(self, loader: Any) -> bool:
        """Return whether each of several workers would give all of a loader's data, by what was seen of it.

        Of an IterableDataset every worker has a copy. To give a part alone, it asks which worker it runs in, or
        `worker_init_fn` tells it (torch.utils.data.IterableDataset).
        """
        iterable = isinstance(loader.dataset, torch.utils.data.IterableDataset)
        return iterable and loader.worker_init_fn is None and not self._asked_worker[0]

    def _asks_for_its_worker(self, *_: Any) -> None:
        """Note that a data set asks which worker it runs in. PyTorch's own collating asks, too, for other reasons."""
        frame = sys._getframe(1)
        while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("slowstep_probe"):
            frame = frame.f_back
        if not str(frame.f_globals.get("__name__")).startswith("torch.utils.data._utils"):
            self._asked_worker[0] = 1

    def facts(self, loader: Any) -> dict[str, str]:
        """Return what workers could not share of a loader's data set: an open file, and what the program changes."""
        data = loader.dataset
        # what was open before its first batch: worker_init_fn may open it anew, and an item may where it is asked for;
        # it may also give each worker's generator a seed of its own
        alike = loader.worker_init_fn is None
        return {
            "opened_by_data_set": (self._opened.get(data) or self._places.found.get(data, "")) if alike else "",
            "drawn_by_data_set": self._draws.found.get(data, "") if alike else "",
            "counted_by_data_set": self._counts.found.get(data, ""),
            "kept_by_data_set": self._kept.found.get(data, ""),
            "trained_in_data_set": looking(trained_within)(data, self._trained()) or "",
            "changed_in_sampler": self._sampling.within.get(self._samplers.get(data, lambda: None)(), ""),
            "changed_within_epochs": self._changes.within.get(innermost(data), ""),
            "changed_between_epochs": self._changes.between.get(innermost(data), ""),
        }

    def _batch_asked(self, original: Any, iterator: Any) -> Any:
        sampler = looking(own_sampler)(iterator)
        for look in self._before:
            look(iterator._dataset)
        if sampler is not None:
            self._samplers[iterator._dataset] = reference(sampler)
            looking(self._sampling.asked)(sampler)
        try:
            return original(iterator)
        finally:
            if sampler is not None:
                looking(self._sampling.made)(sampler)
            for look in self._afterwards:
                look(iterator._dataset)

    def _epoch_asked(self, original: Any, loader: Any) -> Any:
        self.note(loader)
        if loader.dataset not in self._opened:
            self._opened[loader.dataset] = looking(opened)(loader.dataset) or ""
        looking(self._places.epoch_begins)(loader.dataset)
        if (sampler := looking(own_sampler)(loader)) is not None:
            looking(self._sampling.epoch_begins)(sampler)
        looking(self._changes.epoch_begins)(loader.dataset)
        return original(loader)
