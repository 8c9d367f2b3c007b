"""Files and connections whose place moves while a batch is made, however the code comes by them."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import socket
import stat
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from slowstep_probe.by_identity import ByIdentity

PLACES_LOOKED_AT = 50
"""The batches of a data set of which it is looked at whether the place of an open file moves. Many small reads may be
served by what was read ahead."""

FIRST = 5
"""The first batches, of which each is looked at; of so many later ones two are, since a look takes a while."""

HEARD = 3
"""The batches from which on a connection by which something comes is the data set's."""

TCP_INFO, RECEIVED = 256, slice(128, 136)
"""The bytes that the kernel tells of a connection, and where the bytes received stand in them (linux/tcp.h)."""


class SharedPlaces:
    """Notes which data sets read at the place of a file, or from a connection, that was open before their first batch.

    However the code comes by it: what counts is a descriptor whose place moves while a batch is made. One that an item
    or an iterator opens is each worker's own. By a connection others may hear something at any time, so it counts if
    it hears in several batches, and never between two.
    """

    def __init__(self) -> None:
        self.found: ByIdentity[str] = ByIdentity()
        """The file or the connection, by the data set."""
        self._looks: ByIdentity[_Look] = ByIdentity()

    def epoch_begins(self, data: Any) -> None:
        """Look at what is open before a data set's loader begins its first epoch."""
        if data not in self._looks:
            self._looks[data] = _Look({fd: place.file for fd, place in _places().items()})

    def asked(self, data: Any) -> None:
        """Look at what is open before one of a data set's first batches is made."""
        look = self._looks.get(data)
        if look is None or data in self.found or look.batches >= PLACES_LOOKED_AT:
            return
        look.batches += 1
        if look.batches > FIRST and look.batches % FIRST > 1:  # of two that follow each other what is between is seen
            look.after = {}
            return
        look.before = {fd: place for fd, place in _places().items() if look.first.get(fd) == place.file}
        moved = {fd for fd, place in look.before.items() if fd in look.after and place.at != look.after[fd].at}
        look.heard_between |= {fd for fd in moved if look.before[fd].size is None}

    def made(self, data: Any) -> None:
        """Look at it after a batch was made."""
        look = self._looks.get(data)
        if look is None or not look.before:
            return
        before, look.before, look.after = look.before, {}, _places()
        for fd, was in before.items():
            now = look.after.get(fd)
            if now is None or now.at == was.at or now.size != was.size:  # one that grew was written, as a log is
                continue
            look.moved[fd] += 1
            if was.size is not None or (look.moved[fd] >= HEARD and fd not in look.heard_between):
                self.found[data] = _name_of(fd)
                return


@dataclass(frozen=True)
class _Place:
    """Where an open file stands, or how much came by a connection."""

    file: Any
    """What tells that the descriptor is still that of the same file."""
    at: int
    size: int | None
    """The size of the file; None for a connection."""


@dataclass
class _Look:
    """What was seen of the places of one data set's files."""

    first: dict[int, Any]
    """What was open before its first epoch, by descriptor."""
    batches: int = 0
    before: dict[int, _Place] = field(default_factory=dict)
    after: dict[int, _Place] = field(default_factory=dict)
    moved: Counter[int] = field(default_factory=Counter)
    heard_between: set[int] = field(default_factory=set)


def _places() -> dict[int, _Place]:
    """Return what this process has open to read beside its standard streams, by descriptor."""
    found: dict[int, _Place] = {}
    together = _trains_together()
    standard = set[tuple[int, int]]()
    for fd in sorted(map(int, os.listdir("/proc/self/fd"))):
        with contextlib.suppress(OSError):
            told = os.fstat(fd)
            if told.st_dev in _of_the_kernel():
                continue
            if fd <= 2:
                standard.add((told.st_dev, told.st_ino))
            elif (told.st_dev, told.st_ino) in standard:
                continue
            elif stat.S_ISREG(told.st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_WRONLY:
                found[fd] = _Place((told.st_dev, told.st_ino), os.lseek(fd, 0, os.SEEK_CUR), told.st_size)
            elif stat.S_ISSOCK(told.st_mode) and not together:
                found[fd] = _Place(told.st_ino, _received(fd), None)
    return found


def _received(descriptor: int) -> int:
    """Return the bytes that came by a connection so far; OSError for one that does not count them.

    A socket object of Python's would set whether the connection blocks, for all that have it.
    """
    told, size = ctypes.create_string_buffer(TCP_INFO), ctypes.c_uint32(TCP_INFO)
    asked = (descriptor, socket.IPPROTO_TCP, socket.TCP_INFO, told, ctypes.byref(size))
    if _libc().getsockopt(*asked) or size.value < RECEIVED.stop:
        raise OSError
    return int.from_bytes(told.raw[RECEIVED], sys.byteorder)


@functools.cache
def _of_the_kernel() -> frozenset[int]:
    """Return the devices of the kernel's own files, which a monitor may keep open."""
    return frozenset(os.stat(path).st_dev for path in ("/proc", "/sys") if os.path.isdir(path))


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _trains_together() -> bool:
    """Return whether this process is one of several: what they send each other may come at any time."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _name_of(descriptor: int) -> str:
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    return os.path.basename(path) if path.startswith("/") else "a connection"
