"""What a program changes in its data sets and samplers in training, which workers would not see."""

from __future__ import annotations

import inspect
from collections import deque
from itertools import islice
from typing import Any

import torch

from slowstep_probe.by_identity import ByIdentity
from slowstep_probe.data_sets.held import DEPTH, OF_OTHERS, PLAIN, class_of, innermost

ITEMS = 500
"""The items of a container of which it is looked at whether they are others; of a larger one some are."""

WRAPPING = (OF_OTHERS, "accelerate.")
"""Packages whose samplers may only wrap another one."""


class ChangesBetween:
    """Notes what a program changes in its data sets between two batches, and between two epochs.

    What a data set changes itself while it makes a batch is not noted here (`OwnCounts`).
    """

    def __init__(self, numbers: bool = True) -> None:
        """Begin. Without `numbers`, plain values count for nothing: a program may note there where it stands."""
        self._numbers = numbers
        self._own: ByIdentity[set[str]] = ByIdentity()
        """The attributes that a data set was seen to change itself while it made a batch."""
        self._asked: ByIdentity[dict[str, Any]] = ByIdentity()
        self.within: ByIdentity[str] = ByIdentity()
        """The attribute that was changed between two batches, by the innermost data set."""
        self.between: ByIdentity[str] = ByIdentity()
        """The attribute that was changed before an epoch began."""
        self._known: ByIdentity[dict[str, Any]] = ByIdentity()

    def epoch_begins(self, data: Any) -> None:
        """Look at a data set before its loader begins an epoch."""
        data = innermost(data)
        self._known[data] = self._compare(data, self.between)

    def asked(self, data: Any) -> None:
        """Look at a data set before a batch is made of it."""
        data = innermost(data)
        self._asked[data] = self._compare(data, self.within)

    def made(self, data: Any) -> None:
        """Look at a data set after a batch was made of it."""
        data = innermost(data)
        now, asked = _values(data, self._numbers), self._asked.get(data, {})
        self._own.setdefault(data, set()).update(_changed(asked, now) if asked else ())
        self._known[data] = now

    def _compare(self, data: Any, found: ByIdentity[str]) -> dict[str, Any]:
        """Return the values of a data set, and note what others they are than those that are known."""
        known, now = self._known.get(data), _values(data, self._numbers)
        if known is not None and data not in found:
            changed = [name for name in _changed(known, now) if name not in self._own.get(data, ())]
            found.update([(data, changed[0])] if changed else [])
        return now


def _values(data: Any, plain: bool) -> dict[str, Any]:
    """Return the values of a data set's own attributes: `plain` ones, and of others what tells whether they changed."""
    own = [(f".{key}", value) for key, value in list(getattr(data, "__dict__", {}).items())]
    others = {key: _state(value) for key, value in own if not isinstance(value, PLAIN)}
    return ({key: value for key, value in own if isinstance(value, PLAIN)} if plain else {}) | others


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
    if class_of(one) == ("numpy", "ndarray") and one.size and one.flags.writeable and not one.dtype.hasobject:
        return id(one), hash(one.flat[:: 1 + one.size // ITEMS].tobytes())
    return id(one)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the attributes whose values differ. What is no number (nan) differs from itself, and is none of them."""
    names = dict.fromkeys((*before, *after))
    return [n for n in names if (a := before.get(n, names)) is not (b := after.get(n, names)) and a != b and a == a]


def own_sampler(of: Any) -> Any:
    """Return the sampler of a loader or its iterator if it is the user's own, and draws as it is asked; else None."""
    found, seen = getattr(of, "_index_sampler", None), 0
    while type(found).__module__.startswith(WRAPPING) and seen < DEPTH:
        found, seen = getattr(found, "batch_sampler", None) or getattr(found, "sampler", None), seen + 1
    own, begins = not type(found).__module__.startswith(("torch.", "builtins")), getattr(type(found), "__iter__", None)
    return found if own and (inspect.isgeneratorfunction(begins) or hasattr(found, "__next__")) else None
