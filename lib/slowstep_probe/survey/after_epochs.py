"""The time that a program takes between two epochs: from a loader's last batch to its next epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.utils.data.dataloader as loading
from torch.optim.optimizer import register_optimizer_step_post_hook

from slowstep_probe.own_time import time
from slowstep_probe.patches import ITERATORS, Patches


class AfterEpochs:
    """Measures what trials leave out, in which a loop goes on with the next epoch as soon as its loader has no more.

    `has_fed` tells of an iterator whether its batches came to be trained on. The last loader that begins an epoch
    before the next optimizer step is taken for the one that feeds it; those before it are a validation's. A loader that
    is asked one batch ahead has no more before its last batch is trained on: the time counts from the step after that.
    """

    def __init__(self, has_fed: Callable[[Any], bool]):
        self.seconds: list[float] = []
        """Seconds after each epoch that has ended, where another one has begun."""
        self._has_fed = has_fed
        self._ended: float | None = None
        """The moment from which on the time counts; None within an epoch."""
        self._next: float | None = None
        """The moment at which a loader began an epoch after that."""

    def attach(self, patches: Patches) -> None:
        """Begin. It has to be attached before the probe."""
        patches.around(loading.DataLoader, ITERATORS, self._begins)
        patches.around(loading._BaseDataLoaderIter, "__next__", self._asked)
        patches.on_removal(register_optimizer_step_post_hook(self._updated).remove)

    def _begins(self, original: Callable[..., Any], loader: Any) -> Any:
        self._next = time.perf_counter()
        return original(loader)

    def _asked(self, original: Callable[..., Any], iterator: Any) -> Any:
        try:
            return original(iterator)
        except StopIteration:
            if self._has_fed(iterator):
                self._ended, self._next = time.perf_counter(), None
            raise

    def _updated(self, *_: Any) -> None:
        if self._ended is None:
            return
        if self._next is None:
            self._ended = time.perf_counter()
            return
        self.seconds.append(self._next - self._ended)
        self._ended = None
