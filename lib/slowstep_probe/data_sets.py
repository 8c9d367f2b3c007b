"""What the workers of a loader could not share of a data set: open files, generators, and what the program changes."""

from __future__ import annotations

import inspect
import io
import os
import pickle
import random
import stat
import sys
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
}
"""Classes whose objects stand for a file with a place in it, each with a function that tells whether it is open."""

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
    """Return the attribute by which a data set holds an open file; empty if none was found.

    Processes that are forked share the file's place: what one reads moves it for all (fork(2)).
    """
    return next((name for name, one in _held(data) if _is_open(one)), "")


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
    if isinstance(one, (list, tuple)):
        yield from ((f"[{i}]", value) for i, value in enumerate(one[:20]) if not isinstance(value, PLAIN))
    elif isinstance(one, dict):
        yield from (
            (f"[{key!r:.20}]", value)
            for key, value in islice(list(one.items()) if len(one) < MOST else one.items(), 20)
            if not isinstance(value, PLAIN)
        )
    elif not module.startswith(WHOLE) or module.startswith(OF_OTHERS):
        own = getattr(one, "__dict__", None)
        if isinstance(own, dict) and not isinstance(one, type):
            yield from ((f".{key}", value) for key, value in list(own.items()) if not isinstance(value, PLAIN))


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
    """Return the values of a data set's own attributes: plain ones, and the identities of others."""
    own = getattr(data, "__dict__", {})
    return {f".{key}": value if isinstance(value, PLAIN) else id(value) for key, value in list(own.items())}


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the attributes whose values differ. What is no number (nan) differs from itself, and is none of them."""
    names = dict.fromkeys((*before, *after))
    return [n for n in names if (a := before.get(n, names)) is not (b := after.get(n, names)) and a != b and a == a]
