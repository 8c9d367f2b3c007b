"""The loader workers of a trial, and the batches that they have made beforehand.

They stand still while the trial waits for its turn (`slowstep_probe.trial.standstill`). They can't be kept from filling
their queue while the first steps of a block are slow, but it can be asked how much lies ready.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from slowstep_probe.by_identity import reference
from slowstep_probe.own_time import time

QUEUES_OF = ("_task_info", "_worker_result_queue", "_data_queue", "_workers")
"""The private attributes of PyTorch's iterator over workers that are read here, those of torch 2.6 to 2.13. In a
version that lacks one, no batches are known to lie ready, none are used up before a block, and a test fails."""


class Workers:
    """The workers of the iterator that was last asked for a batch. There are none if the process makes its batches."""

    def __init__(self) -> None:
        self._of: Callable[[], Any] = lambda: None

    @property
    def _iterator(self) -> Any:
        """The iterator that was asked last. With it, its workers would live longer than the program lets them."""
        return self._of()

    def belong_to(self, iterator: Any) -> None:
        """Take the workers of `iterator` as those that are asked about from now on."""
        self._of = reference(iterator)

    @property
    def known(self) -> bool:
        """True if the iterator of this version of PyTorch has all attributes in `QUEUES_OF`."""
        return all(hasattr(self._iterator, name) for name in QUEUES_OF)

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes of workers that are alive."""
        workers = getattr(self._iterator, "_workers", [])
        return [w.pid for w in workers if w.pid is not None and w.is_alive()]

    @property
    def number(self) -> int:
        """The number of workers that are alive."""
        return len(self.pids)

    @property
    def outstanding(self) -> int:
        """The number of batches that were asked for and not yet given: all that the queue may hold."""
        it = self._iterator
        return len(it._task_info) if self.pids and self.known else 0

    @property
    def ready(self) -> int:
        """The number of batches that lie ready."""
        it = self._iterator
        if not self.pids or not self.known:
            return 0
        received = sum(len(task) == 2 for task in it._task_info.values())  # (worker,) until its batch has come
        queues = {id(q): q for q in (it._worker_result_queue, it._data_queue)}  # two where a thread pins memory
        return received + sum(q.qsize() for q in queues.values())

    def killed(self, patience: float = 0.0) -> list[signal.Signals]:
        """Return the signals that ended workers, except SIGTERM, by which the loader itself ends them.

        A signal may take a moment to be known: wait for one at most `patience` seconds.
        """
        deadline = time.monotonic() + patience
        while True:
            codes = [worker.exitcode for worker in getattr(self._iterator, "_workers", [])]
            found = [signal.Signals(-code) for code in codes if code is not None and code < 0]
            found = [number for number in found if number is not signal.SIGTERM]  # so the loader ends them itself
            if found or time.monotonic() >= deadline:
                return found
            time.sleep(0.01)
