"""The way in which the ranks of a trial find each other: by a file on one node, and by an address between several.

Two arms of one command would listen on one port, and so would two investigations on one host. So whatever address and
port the program names, the store that `init_process_group` makes for `env://` and `tcp://` is another one: a file in
the trial's folder, or on several nodes a port that was free when the trial began.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from slowstep_probe.patches import Patches
from slowstep_probe.processes.wire import Wire


@dataclass(frozen=True, kw_only=True)
class Address:
    """The address at which the ranks of several nodes meet."""

    host: str
    port: int
    listening: int = -1
    """The descriptor of the socket that listens there, in the processes of the first node; -1 on other nodes."""

    def close(self) -> None:
        """Close the socket in a process that does not serve there."""
        if self.listening >= 0:
            with contextlib.suppress(OSError):
                os.close(self.listening)


def open_address(nodes: Sequence[Wire], here: bool) -> Address | None:
    """Return an address at which other nodes can be met, and tell them its port; None where they meet by a file.

    They do so if all ranks are on one node: on that of this process (`here`), or on the only other one.
    """
    if not nodes or (not here and len(nodes) == 1):
        for node in nodes:
            node.send({"port": 0})
        return None
    host, family = nodes[0].here()
    listening = socket.create_server((host, 0), family=family, backlog=256)
    port = listening.getsockname()[1]
    for node in nodes:
        node.send({"port": port})
    return Address(host=host, port=port, listening=listening.detach())


def receive_address(leader: Wire) -> Address | None:
    """Return the address that the leader of all ranks has told this node; None where they meet by a file."""
    port = int(leader.receive()["port"])
    return Address(host=leader.there(), port=port) if port else None


class Meeting:
    """Has ranks meet at an address, or by files in `folder`, which all of them see.

    They are `size`, whatever the program says; as many as it says where that is 0.
    """

    def __init__(self, folder: str, size: int, address: Address | None):
        self._folder, self._size, self._address = folder, size, address
        self._number = itertools.count()
        self._at_address: Any = None
        """The connection to the store at the address; None before it is first needed."""

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

    def _store(
        self, original: Any, hostname: str, port: int, rank: int, size: int, timeout: Any, *_: Any, **__: Any
    ) -> Any:
        """Return a store. Each is the next one: all ranks ask for their stores in the same order."""
        name = f"meeting-{next(self._number)}"
        if self._address is None:
            return torch.distributed.FileStore(os.path.join(self._folder, name), self._size or size)
        if self._at_address is None:
            self._at_address = self._met(self._address, rank, timeout)
        return torch.distributed.PrefixStore(name, self._at_address)

    def _met(self, address: Address, rank: int, timeout: Any) -> Any:
        """Return the store at the address. The first rank serves it."""
        serves = {"is_master": True, "master_listen_fd": address.listening} if rank == 0 else {"is_master": False}
        return torch.distributed.TCPStore(
            address.host, address.port, self._size, timeout=timeout, wait_for_workers=False, **serves
        )
