"""What the workers of a loader could not share of a data set: open files, and what the program changes in it."""

from __future__ import annotations

import io
import os
import stat
from collections import deque
from collections.abc import Iterator
from typing import Any

DEPTH, MOST = 4, 500
"""How deep a data set is looked into, and at how many objects."""

FILES = ("h5py", "sqlite3", "zipfile", "tarfile", "lmdb", "netCDF4", "tables")
"""Packages whose objects stand for a file that is open, with a place in it."""

WHOLE = ("datasets.", "pyarrow.", "numpy", "torch", "pandas.")
"""Packages whose objects are not looked into; but the data sets that PyTorch makes of others are."""

OF_OTHERS = "torch.utils.data."

PLAIN = (int, float, str, bool, bytes, type(None))


def opened(data: Any) -> str:
    """Return the attribute by which a data set holds an open file; empty if none was found.

    Processes that are forked share the file's place: what one reads moves it for all (fork(2)).
    """
    waiting, seen = deque([("", data, 0)]), set[int]()
    while waiting and len(seen) < MOST:
        name, one, depth = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if _is_open(one):
            return name
        if depth < DEPTH:
            waiting.extend((name + inner, value, depth + 1) for inner, value in _parts(one))
    return ""


def _parts(one: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object is made of, by the words that lead to it."""
    module = type(one).__module__
    if isinstance(one, (list, tuple)):
        yield from ((f"[{i}]", value) for i, value in enumerate(one[:20]) if not isinstance(value, PLAIN))
    elif isinstance(one, dict):
        yield from ((f"[{key!r:.20}]", value) for key, value in list(one.items())[:20] if not isinstance(value, PLAIN))
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
    kind = type(one)
    return kind.__module__.partition(".")[0] in FILES and not isinstance(one, type) and bool(one)


class ChangesBetween:
    """Notes what a program changes in its data sets between two batches, and between two epochs.

    What a data set changes itself while it makes a batch is not noted.
    """

    def __init__(self) -> None:
        self.within: dict[int, str] = {}
        """The attribute that was changed between two batches, by the identity of the data set."""
        self.between: dict[int, str] = {}
        """The attribute that was changed before an epoch began."""
        self._known: dict[int, dict[str, Any]] = {}

    def epoch_begins(self, data: Any) -> None:
        """Look at a data set before its loader begins an epoch."""
        self._compare(data, self.between)
        self.made(data)

    def asked(self, data: Any) -> None:
        """Look at a data set before a batch is made of it."""
        self._compare(data, self.within)

    def made(self, data: Any) -> None:
        """Look at a data set after a batch was made of it."""
        self._known[id(data)] = _values(data)

    def _compare(self, data: Any, found: dict[int, str]) -> None:
        known = self._known.get(id(data))
        if known is None or id(data) in found:
            return
        now = _values(data)
        changed = [name for name in (*known, *now) if known.get(name, now) != now.get(name, known)]
        if changed:
            found[id(data)] = changed[0]


def _values(data: Any) -> dict[str, Any]:
    """Return the values of a data set's own attributes: plain ones, and the identities of others."""
    own = getattr(data, "__dict__", {})
    values = {f".{key}": value if isinstance(value, PLAIN) else id(value) for key, value in list(own.items())}
    inner = own.get("dataset")  # of torch's Subset
    return values | {f".dataset{key}": value for key, value in (_values(inner) if inner is not None else {}).items()}
