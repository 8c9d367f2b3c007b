"""What the workers of a loader could not share of a data set: open files, generators, and what the program changes."""

from __future__ import annotations

import contextlib
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
from collections import Counter, deque
from collections.abc import Callable, Iterator
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
    ("socket", "socket"): lambda one: bool(one.getpeername()),
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

WHOLE = ("datasets.", "pyarrow.", "numpy", "torch", "pandas.")
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
    elif isinstance(one, types.GeneratorType):
        yield from ((f".{name}", value) for name, value in (one.gi_frame.f_locals if one.gi_frame else {}).items())
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
            elif not (name.startswith("__") or callable(value) or hasattr(value, "__get__")):
                found[name] = value
    own = getattr(one, "__dict__", None)
    return found | (dict(own) if isinstance(own, dict) else {})


def _is_open(one: Any) -> bool:
    if isinstance(one, io.IOBase):
        try:
            return not one.closed and one.readable() and stat.S_ISREG(os.fstat(one.fileno()).st_mode)
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
    opens where it is asked for is each worker's own.
    """

    def __init__(self) -> None:
        self.found: dict[int, str] = {}
        """The file or the connection, by the data set's identity."""
        self._first: dict[int, dict[int, Any]] = {}
        """What was open before the first batch, by descriptor, each with the file that it stands for."""
        self._before: dict[int, dict[int, int]] = {}
        self._batches: Counter[int] = Counter()

    def asked(self, data: Any) -> None:
        """Look at what is open before one of a data set's first batches is made."""
        self._batches[id(data)] += 1
        if id(data) in self.found or self._batches[id(data)] > PLACES_LOOKED_AT:
            return
        places = _places()
        first = self._first.setdefault(id(data), {fd: file for fd, (file, _) in places.items()})
        self._before[id(data)] = {fd: at for fd, (file, at) in places.items() if first.get(fd) == file}

    def made(self, data: Any) -> None:
        """Look at it after a batch was made."""
        before = self._before.pop(id(data), {})
        after = _places() if before else {}
        moved = [fd for fd, at in before.items() if fd in after and after[fd][1] != at]
        if moved:
            self.found[id(data)] = _name_of(moved[0])


PLACES_LOOKED_AT = 50
"""The batches of a data set of which it is looked at whether the place of an open file moves. Many small reads may be
served by what was read ahead."""

TCP_INFO, RECEIVED = 256, slice(128, 136)
"""The bytes that the kernel tells of a connection, and where the bytes received stand in them (linux/tcp.h)."""


def _places() -> dict[int, tuple[Any, int]]:
    """Return what this process has open to read, by descriptor: which file it is, and how far it was read."""
    found: dict[int, tuple[Any, int]] = {}
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        with contextlib.suppress(OSError):
            told = os.fstat(fd)
            if stat.S_ISREG(told.st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_WRONLY:
                found[fd] = ((told.st_dev, told.st_ino), os.lseek(fd, 0, os.SEEK_CUR))
            elif stat.S_ISSOCK(told.st_mode) and not _trains_together():
                found[fd] = (told.st_ino, _received(fd))
    return found


def _received(descriptor: int) -> int:
    """Return the bytes that came by a connection so far; OSError for one that does not count them."""
    with socket.socket(fileno=os.dup(descriptor)) as one:
        if one.family not in (socket.AF_INET, socket.AF_INET6):
            return 0
        return int.from_bytes(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO)[RECEIVED], sys.byteorder)


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
        yield from ((name, variables[name]) for name in getattr(code, "co_names", ()) if name in variables)


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
        self._compare(data, self.between)
        self._known[id(data)] = _values(data)

    def asked(self, data: Any) -> None:
        """Look at a data set before a batch is made of it."""
        data = innermost(data)
        self._compare(data, self.within)
        self._asked[id(data)] = _values(data)

    def made(self, data: Any) -> None:
        """Look at a data set after a batch was made of it."""
        data = innermost(data)
        now, asked = _values(data), self._asked.get(id(data), {})
        self._own.setdefault(id(data), set()).update(_changed(asked, now) if asked else ())
        self._known[id(data)] = now

    def _compare(self, data: Any, found: dict[int, str]) -> None:
        known = self._known.get(id(data))
        if known is None or id(data) in found:
            return
        changed = [name for name in _changed(known, _values(data)) if name not in self._own.get(id(data), ())]
        if changed:
            found[id(data)] = changed[0]


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


ITEMS = 2_000
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
    if _kind(one) in (("numpy", "ndarray"), ("numpy", "memmap")) and one.size and not one.dtype.hasobject:
        return id(one), hash(one.flat[:: 1 + one.size // ITEMS].tobytes())
    return id(one)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the attributes whose values differ. What is no number (nan) differs from itself, and is none of them."""
    names = dict.fromkeys((*before, *after))
    return [n for n in names if (a := before.get(n, names)) is not (b := after.get(n, names)) and a != b and a == a]
