"""Messages as lines of JSON over a socket, between the kit and what it started in another interpreter.

Descriptors of files can go with a message, so that a process can be handed the sockets that it is to answer through.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Sequence
from json import dumps, loads
from typing import Any

from slowstep_probe.own_time import time

PORTION = 2**16
MOST_DESCRIPTORS = 4

LONGEST = 2**31 - 1
"""The most milliseconds that poll(2) waits, 24 days. Whoever asks for more wants no end."""

MAPPED = "::ffff:"
"""The beginning of an IPv4 address as a socket shows it that listens for both versions of the protocol."""


class Wire:
    """One end of a connection. A message is a dictionary of plain data."""

    def __init__(self, own: socket.socket):
        self._socket, self._unread = own, bytearray()
        self.closed = False
        self.descriptors: list[int] = []
        """The descriptors that came with the messages received so far. Who takes them removes them from here."""

    @classmethod
    def of(cls, descriptor: int) -> Wire:
        """Return the wire at a descriptor that this process was handed."""
        return cls(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        """Return the number of the socket, to wait for several wires at a time."""
        return self._socket.fileno()

    def here(self) -> tuple[str, int]:
        """Return the address of this end of a connection to another host, and its family."""
        address = self._socket.getsockname()[0]
        if address.startswith(MAPPED):
            return address.removeprefix(MAPPED), socket.AF_INET
        return address, self._socket.family

    def there(self) -> str:
        """Return the address of the other end of a connection to another host."""
        return self._socket.getpeername()[0]

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = (), after_failure: bool = False) -> None:
        """Send a message; OSError if the other end is gone.

        `after_failure`, an earlier message may have been cut off by an exception. A line of its own begins here.
        """
        line = b"\n" * after_failure + dumps(message).encode("ascii") + b"\n"
        if descriptors:
            sent = socket.send_fds(self._socket, [line], descriptors)
            line = line[sent:]
        self._socket.sendall(line)

    def waits(self) -> bool:
        """Return whether a message has been read and not yet received. No poll of the descriptor shows it."""
        return b"\n" in self._unread

    def receive(self, timeout: float | None = None) -> dict[str, Any]:
        """Return the next message.

        EOFError if the other end is gone, TimeoutError if no message comes within `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            while not self.waits():
                self._read(deadline)
            line, _, self._unread = self._unread.partition(b"\n")
            with contextlib.suppress(ValueError):  # a line that an exception cut off
                message = loads(line)
                if isinstance(message, dict):
                    return message

    def close(self) -> None:
        """Close this end. Repeating this is harmless."""
        self.closed = True
        with contextlib.suppress(OSError):
            self._socket.close()

    def _read(self, deadline: float | None) -> None:
        """Read a portion; EOFError at the end, TimeoutError at the deadline."""
        if not wait([self], None if deadline is None else max(0.0, deadline - time.monotonic())):
            raise TimeoutError
        try:
            portion, descriptors, *_ = socket.recv_fds(self._socket, PORTION, MOST_DESCRIPTORS)
        except OSError:
            portion, descriptors = b"", []
        for each in descriptors:
            os.set_inheritable(each, False)
        self.descriptors += descriptors
        if not portion:
            raise EOFError
        self._unread += portion


def wait(wires: Sequence[Wire], timeout: float | None = None) -> list[Wire]:
    """Return the wires from which something, or the end, can be received within `timeout` seconds; None: for ever."""
    if ready := [wire for wire in wires if wire.waits()]:
        return ready
    poll = select.poll()
    for wire in wires:
        poll.register(wire.fileno(), select.POLLIN)
    found = {descriptor for descriptor, _ in poll.poll(None if timeout is None else min(timeout * 1000, LONGEST))}
    return [wire for wire in wires if wire.fileno() in found]


def pair() -> tuple[Wire, Wire]:
    """Return the two ends of a new connection."""
    one, other = socket.socketpair()
    return Wire(one), Wire(other)
