"""What the workers of a loader could not share of a data set: open files, generators, and what the program changes."""

from __future__ import annotations

import contextlib
import ctypes
import dis
import fcntl
import functools
import inspect
import io
import os
import pickle
import random
import socket
import stat
import sys
import types
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch

DEPTH, MOST = 4, 500
"""How deep a data set is looked into, and at how many objects."""

FILES: dict[tuple[str, str], Callable[[Any], bool]] = {
    ("zipfile", "ZipFile"): lambda one: one.fp is not None,
    ("tarfile", "TarFile"): lambda one: not one.closed,
    ("numpy", "NpzFile"): lambda one: one.zip is not None,
    ("sqlite3", "Connection"): lambda one: one.total_changes >= 0,
    ("h5py", "File"): bool,
    ("h5py", "Group"): bool,
    ("h5py", "Dataset"): bool,
    ("lmdb", "Environment"): lambda one: True,
    ("netCDF4", "Dataset"): lambda one: one.isopen(),
    ("tables", "File"): lambda one: bool(one.isopen),
    ("socket", "socket"): lambda one: one.getpeername() is not None,
    ("multiprocessing", "Connection"): lambda one: not one.closed and one.readable,
    ("psycopg2", "connection"): lambda one: not one.closed,
    ("psycopg", "Connection"): lambda one: not one.closed,
    ("pymysql", "Connection"): lambda one: bool(one.open),
}
"""Classes whose objects stand for a file with a place in it or for a connection, each with a function that tells
whether it is open."""

GENERATORS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("numpy", "Generator"): lambda one: one.bit_generator.state,
    ("numpy", "RandomState"): lambda one: one.get_state(),
    ("random", "Random"): lambda one: one.getstate(),
    ("torch", "Generator"): lambda one: one.get_state().numpy(),
}
"""Classes whose objects give random numbers, each with a function that returns their state."""

WHOLE = ("datasets.", "pyarrow.", "numpy", "torch", "pandas.", "logging", "multiprocessing.")
"""Packages whose objects are not looked into; but the data sets that PyTorch makes of others are."""

OF_OTHERS = "torch.utils.data."

PLAIN = (int, float, str, bool, bytes, type(None))


def opened(data: Any) -> str:
    """Return the attribute or the name by which a data set has an open file or connection; empty if none was found.

    Processes that are forked share the file's place: what one reads moves it for all (fork(2)).
    """
    held = [*_held(data), *_named(innermost(data))]
    return next((name for name, one in held if _is_open(one)), "")


def _held(data: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a data set holds, from the outside in, by the words that lead to it."""
    waiting, seen = deque([("", data, 0)]), set[int]()
    while waiting and len(seen) < MOST:
        name, one, depth = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield name, one
        if depth < DEPTH:
            waiting.extend((name + inner, value, depth + 1) for inner, value in _parts(one))


def _kind(one: Any) -> tuple[str, str]:
    """Return the package and the name of an object's class."""
    return type(one).__module__.lstrip("_").partition(".")[0], type(one).__name__


def _parts(one: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object is made of, by the words that lead to it."""
    module = type(one).__module__
    if isinstance(one, functools.partial):
        yield from ((f"[{i}]", value) for i, value in enumerate((one.func, *one.args, *one.keywords.values())))
    elif isinstance(one, (types.MethodType, types.BuiltinMethodType)):
        yield "", one.__self__
    elif isinstance(one, types.FunctionType):
        for name, cell in zip(one.__code__.co_freevars, one.__closure__ or (), strict=False):
            with contextlib.suppress(ValueError):  # it is empty so far
                yield f".{name}", cell.cell_contents
    elif isinstance(one, (list, tuple)):
        yield from ((f"[{i}]", value) for i, value in enumerate(one[:20]) if not isinstance(value, PLAIN))
    elif isinstance(one, dict):
        yield from (
            (f"[{key!r:.20}]", value)
            for key, value in islice(list(one.items()) if len(one) < MOST else one.items(), 20)
            if not isinstance(value, PLAIN)
        )
    elif isinstance(one, (type, types.ModuleType)) or (module.startswith(WHOLE) and not module.startswith(OF_OTHERS)):
        return
    else:
        yield from ((f".{key}", value) for key, value in _attributes(one).items() if not isinstance(value, PLAIN))


def _attributes(one: Any) -> dict[str, Any]:
    """Return the attributes of an object: its own, those with a slot, and those of its class that are no methods."""
    found: dict[str, Any] = {}
    for kind in reversed(type(one).__mro__):
        if kind.__module__.startswith((*WHOLE, "builtins")):
            continue
        for name, value in vars(kind).items():
            if isinstance(value, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # nothing is in the slot so far
                    found[name] = getattr(one, name)
            elif not (name.startswith("__") or callable(value) or hasattr(type(value), "__get__")):
                found[name] = value
    own = getattr(one, "__dict__", None)
    return found | (dict(own) if isinstance(own, dict) else {})


def _is_open(one: Any) -> bool:
    if isinstance(one, io.IOBase):
        try:
            kind = stat.S_IFMT(os.fstat(one.fileno()).st_mode) if not one.closed and one.readable() else 0
            return kind in (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK)
        except (OSError, ValueError):
            return False
    is_open = FILES.get(_kind(one))
    try:
        return is_open is not None and is_open(one)
    except Exception:  # it was closed, and says so
        return False


class SharedPlaces:
    """Notes which data sets read at the place of a file, or from a connection, that was open before their first batch.

    However the code comes by it: what counts is a descriptor whose place moves while a batch is made. One that an item
    or an iterator opens is each worker's own. By a connection others may hear something at any time, so it counts if
    it hears in several batches, and never between two.
    """

    def __init__(self) -> None:
        self.found: dict[int, str] = {}
        """The file or the connection, by the data set's identity."""
        self._looks: dict[int, _Look] = {}

    def epoch_begins(self, data: Any) -> None:
        """Look at what is open before a data set's loader begins its first epoch."""
        known = self._looks.get(id(data))
        if known is None or known.of() is not data:
            self.found.pop(id(data), None)
            self._looks[id(data)] = _Look(_reference(data), {fd: place.file for fd, place in _places().items()})

    def asked(self, data: Any) -> None:
        """Look at what is open before one of a data set's first batches is made."""
        look = self._looks.get(id(data))
        if look is None or id(data) in self.found or look.batches >= PLACES_LOOKED_AT:
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
        look = self._looks.get(id(data))
        if look is None or not look.before:
            return
        before, look.before, look.after = look.before, {}, _places()
        for fd, was in before.items():
            now = look.after.get(fd)
            if now is None or now.at == was.at or now.size != was.size:  # one that grew was written, as a log is
                continue
            look.moved[fd] += 1
            if was.size is not None or (look.moved[fd] >= HEARD and fd not in look.heard_between):
                self.found[id(data)] = _name_of(fd)
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

    of: Callable[[], Any]
    """The data set, as long as it is there."""
    first: dict[int, Any]
    """What was open before its first epoch, by descriptor."""
    batches: int = 0
    before: dict[int, _Place] = field(default_factory=dict)
    after: dict[int, _Place] = field(default_factory=dict)
    moved: Counter[int] = field(default_factory=Counter)
    heard_between: set[int] = field(default_factory=set)


PLACES_LOOKED_AT = 50
"""The batches of a data set of which it is looked at whether the place of an open file moves. Many small reads may be
served by what was read ahead."""

FIRST = 5
"""The first batches, of which each is looked at; of so many later ones two are, since a look takes a while."""

HEARD = 3
"""The batches from which on a connection by which something comes is the data set's."""

TCP_INFO, RECEIVED = 256, slice(128, 136)
"""The bytes that the kernel tells of a connection, and where the bytes received stand in them (linux/tcp.h)."""


def _reference(data: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(data)
    except TypeError:  # a list
        return lambda: data


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


class OwnDraws:
    """Notes which data sets draw from a generator of their own while they make a batch.

    Each worker has a copy of the data set, and so of its generator: workers would draw the same numbers.
    """

    def __init__(self) -> None:
        self.found: dict[int, str] = {}
        """The attribute or the name by which a data set has the generator, by the data set's identity."""
        self._generators: dict[int, list[tuple[str, Any]]] = {}
        self._states: dict[int, list[bytes]] = {}
        self._batches: Counter[int] = Counter()

    def asked(self, data: Any) -> None:
        """Look at a data set before one of its first batches is made."""
        self._batches[id(data)] += 1
        if id(data) in self.found or self._batches[id(data)] > LOOKED_AT:
            return
        if id(data) not in self._generators:
            held = [*_held(data), *_named(innermost(data))]
            found = [(name, one) for name, one in held if _kind(one) in GENERATORS]
            self._generators[id(data)] = [(name, one) for name, one in found if not _is_seeded_in_workers(one)]
        self._states[id(data)] = self._now(data)

    def made(self, data: Any) -> None:
        """Look at it after a batch was made."""
        before = self._states.pop(id(data), [])
        drawn = [was != now for was, now in zip(before, self._now(data) if before else [], strict=True)]
        names = [name for name, _ in self._generators.get(id(data), [])]
        if any(drawn):
            self.found[id(data)] = names[drawn.index(True)]

    def _now(self, data: Any) -> list[bytes]:
        return [pickle.dumps(GENERATORS[_kind(one)](one)) for _, one in self._generators[id(data)]]


LOOKED_AT = 3
"""The batches of a data set of which it is looked at whether random numbers are drawn for them."""


def _is_seeded_in_workers(one: Any) -> bool:
    """Return whether a generator is one of those that a loader seeds anew in each worker."""
    of_numpy = getattr(getattr(sys.modules.get("numpy.random"), "mtrand", None), "_rand", None)
    return any(one is other for other in (random._inst, torch.default_generator, of_numpy))  # type: ignore[attr-defined]


def _named(data: Any) -> Iterator[tuple[str, Any]]:
    """Yield the global variables that a data set's code for an item names."""
    for method in ("__getitem__", "__getitems__", "__iter__"):
        if not hasattr(type(data), method):
            continue
        function = inspect.unwrap(getattr(type(data), method))
        code, variables = getattr(function, "__code__", None), getattr(function, "__globals__", {})
        named = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"} if code else ()
        yield from ((name, variables[name]) for name in named if name in variables)


class ChangesBetween:
    """Notes what a program changes in its data sets between two batches, and between two epochs.

    What a data set changes itself while it makes a batch is not noted.
    """

    def __init__(self) -> None:
        self._own: dict[int, set[str]] = {}
        """The attributes that a data set was seen to change itself while it made a batch."""
        self._asked: dict[int, dict[str, Any]] = {}
        self.within: dict[int, str] = {}
        """The attribute that was changed between two batches, by the identity of the data set."""
        self.between: dict[int, str] = {}
        """The attribute that was changed before an epoch began."""
        self._known: dict[int, dict[str, Any]] = {}

    def epoch_begins(self, data: Any) -> None:
        """Look at a data set before its loader begins an epoch."""
        data = innermost(data)
        self._known[id(data)] = self._compare(data, self.between)

    def asked(self, data: Any) -> None:
        """Look at a data set before a batch is made of it."""
        data = innermost(data)
        self._asked[id(data)] = self._compare(data, self.within)

    def made(self, data: Any) -> None:
        """Look at a data set after a batch was made of it."""
        data = innermost(data)
        now, asked = _values(data), self._asked.get(id(data), {})
        self._own.setdefault(id(data), set()).update(_changed(asked, now) if asked else ())
        self._known[id(data)] = now

    def _compare(self, data: Any, found: dict[int, str]) -> dict[str, Any]:
        """Return the values of a data set, and note what others they are than those that are known."""
        known, now = self._known.get(id(data)), _values(data)
        if known is not None and id(data) not in found:
            changed = [name for name in _changed(known, now) if name not in self._own.get(id(data), ())]
            found.update({id(data): changed[0]} if changed else {})
        return now


def innermost(data: Any) -> Any:
    """Return the data set within those that only select from another (torch's Subset)."""
    seen = 0
    while type(data).__module__.startswith(OF_OTHERS) and hasattr(data, "dataset") and seen < DEPTH:
        data, seen = data.dataset, seen + 1
    return data


def _values(data: Any) -> dict[str, Any]:
    """Return the values of a data set's own attributes: plain ones, and of others what tells whether they changed."""
    own = getattr(data, "__dict__", {})
    return {f".{key}": value if isinstance(value, PLAIN) else _state(value) for key, value in list(own.items())}


ITEMS = 500
"""The items of a container of which it is looked at whether they are others; of a larger one some are."""


def _state(one: Any) -> Any:
    """Return what tells whether an object is another one, or was changed in its place."""
    if isinstance(one, tuple):  # as a TensorDataset holds its tensors
        return id(one), *(_state(value) for value in one[:20] if not isinstance(value, (*PLAIN, tuple)))
    if isinstance(one, list):
        return id(one), len(one), hash(tuple(map(id, one[:: 1 + len(one) // ITEMS])))
    if isinstance(one, deque):
        return id(one), len(one), *map(id, islice(one, 2)), *map(id, islice(reversed(one), 2))
    if isinstance(one, (dict, set)):
        return id(one), len(one), hash(tuple(map(id, islice(one.values() if isinstance(one, dict) else one, ITEMS))))
    if isinstance(one, torch.Tensor):
        return id(one), 0 if one.is_inference() else one._version
    if _kind(one) == ("numpy", "ndarray") and one.size and one.flags.writeable and not one.dtype.hasobject:
        return id(one), hash(one.flat[:: 1 + one.size // ITEMS].tobytes())
    return id(one)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the attributes whose values differ. What is no number (nan) differs from itself, and is none of them."""
    names = dict.fromkeys((*before, *after))
    return [n for n in names if (a := before.get(n, names)) is not (b := after.get(n, names)) and a != b and a == a]
