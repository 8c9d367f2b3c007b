"""The servers that a program asks, by the network or by a socket in the file system, as far as Python asks them.

Not all that a trial would send is held back (`slowstep_probe/uploads.py`). So whoever diagnoses a program is told who
hears it.
"""

from __future__ import annotations

import os
import socket
import tempfile
from ipaddress import ip_address
from typing import Any

CONNECTS = "socket.connect"
"""The event that Python tells an audit hook of a connection that is asked for."""

MOST = 20
"""The most servers that are told."""

PASSING = 32768
"""The first port that a system gives to whoever asks for any (ip_local_port_range in the kernel's networking docs).
At such a port of this host listens a process of the program's own library, as W&B's does."""


class Servers:
    """The servers that were asked while this is told of events."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}
        """Each as `host:port`, or as the path of its socket, in their order."""
        self._names: dict[str, str] = {}
        """The names that were looked up, by the addresses that were found for them."""

    def looked_up(self, found: list[tuple[Any, ...]], host: Any, *_: Any, **__: Any) -> None:
        """Note the addresses that `socket.getaddrinfo` found for a name."""
        self._names |= {str(one[4][0]): os.fsdecode(host) for one in found if host}

    def connects(self, asking: socket.socket, address: Any) -> None:
        """Note whom a socket asks for a connection."""
        if asking.type != socket.SOCK_STREAM or len(self.found) >= MOST:
            return  # a datagram's `connect` asks nobody
        if asking.family == socket.AF_UNIX:
            path = os.fsdecode(address)
            own = os.path.realpath(path).startswith(os.path.join(os.path.realpath(tempfile.gettempdir()), ""))
            if os.path.isabs(path) and not own:
                self.found[path] = None
        elif asking.family in (socket.AF_INET, socket.AF_INET6):
            host, port = address[:2]
            if not (port >= PASSING and _is_here(host)):
                self.found[f"{self._names.get(str(host), host)}:{port}"] = None


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
