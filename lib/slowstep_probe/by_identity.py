"""What is known of single objects of the program, kept without keeping the objects alive."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, TypeVar

T = TypeVar("T")

HELD = 4
"""The objects without weak references (lists, tuples) that are kept alive: those of training, validation and test."""


def reference(one: Any) -> Callable[[], Any]:
    """Return a function that returns an object as long as it lives. It keeps one alive that has no weak references."""
    try:
        return weakref.ref(one)
    except TypeError:
        return lambda: one


class ByIdentity(MutableMapping[Any, T]):
    """Values by objects, each of which is equal to itself alone. An object that is gone takes its value with it.

    So another one at its address has none. Of objects without weak references the last `HELD` are known. A value must
    not hold its object.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Callable[[], Any], T]] = {}
        self._held: dict[int, None] = {}

    def __getitem__(self, one: Any) -> T:
        of, value = self._entries[id(one)]
        if of() is not one:
            raise KeyError
        return value

    def __setitem__(self, one: Any, value: T) -> None:
        key, entries = id(one), self._entries

        def gone(of: Any) -> None:
            if key in entries and entries[key][0] is of:
                del entries[key]

        try:
            entries[key] = (weakref.ref(one, gone), value)
        except TypeError:
            entries[key] = (lambda: one, value)
            self._held.pop(key, None)
            self._held[key] = None
            if len(self._held) > HELD:
                del self[self._entries[next(iter(self._held))][0]()]

    def __delitem__(self, one: Any) -> None:
        self[one]
        del self._entries[id(one)]
        self._held.pop(id(one), None)

    def __iter__(self) -> Iterator[Any]:
        living = (of() for of, _ in list(self._entries.values()))
        return (one for one in living if one is not None)

    def __len__(self) -> int:
        return len(self._entries)


_numbers: ByIdentity[int] = ByIdentity()
_next = itertools.count()


def identity(one: Any) -> int:
    """Return a number that stands for an object alone, also when it is gone: no other object ever gets it.

    One without weak references that was asked about long ago gets another one (`HELD`).
    """
    if one not in _numbers:
        _numbers[one] = next(_next)
    return _numbers[one]
