"""The way in which the ranks of a trial find each other: by a file in the trial's folder.

Two arms of one command would listen on one port, and so would two investigations on one host. The store that
`init_process_group` makes for `env://` and `tcp://` is therefore a file, whatever address and port the program names.
"""

from __future__ import annotations

import importlib
import itertools
import os
from typing import Any

import torch

from slowstep_probe.patches import Patches


class Meeting:
    """Has ranks meet by files in `folder`, which all of them see.

    They are `size`, whatever the program says; as many as it says where that is 0.
    """

    def __init__(self, folder: str, size: int = 0):
        self._folder, self._size = folder, size
        self._number = itertools.count()

    def attach(self, patches: Patches) -> None:
        """Begin. A torch without `torch.distributed` has no ranks."""
        if torch.distributed.is_available():
            rendezvous = importlib.import_module("torch.distributed.rendezvous")  # a function has its name, too
            patches.around(rendezvous, "_create_c10d_store", self._store)
            if self._size:
                patches.everywhere(torch.distributed.distributed_c10d, "init_process_group", self._joined)

    def _joined(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Join with as many ranks as there are, whatever the program says."""
        if kwargs.get("world_size", -1) > 0:
            kwargs["world_size"] = self._size
        elif len(args) > 3 and args[3] > 0:
            args = (*args[:3], self._size, *args[4:])
        return original(*args, **kwargs)

    def _store(self, original: Any, hostname: str, port: int, rank: int, size: int, *_: Any, **__: Any) -> Any:
        """Return a store in a file. Each is the next one: all ranks ask for their stores in the same order."""
        path = os.path.join(self._folder, f"meeting-{next(self._number)}")
        return torch.distributed.FileStore(path, self._size or size)
