"""What a data set keeps of the items that it has read, so that later epochs find them in memory."""

from __future__ import annotations

from typing import Any

import torch

from slowstep_probe.by_identity import ByIdentity
from slowstep_probe.data_sets.held import LOOKED_AT, PLAIN, all_of, class_of, innermost

LONGEST = 10**6
"""The largest list of which it is looked at how much of it is filled."""


class KeptItems:
    """Notes which data sets keep what they read: a mapping, a list or a cache fills by as much with each batch.

    Each worker would keep items of its own, and lose them with the end of an epoch. What keeps open files is none.
    """

    def __init__(self) -> None:
        self.found: ByIdentity[str] = ByIdentity()
        """The attribute or the name by which a data set keeps items."""
        self._before: ByIdentity[dict[str, int]] = ByIdentity()
        self._grown: ByIdentity[list[dict[str, int]]] = ByIdentity()

    def asked(self, data: Any) -> None:
        """Look at a data set before one of its first batches is made."""
        if len(self._grown.setdefault(data, [])) < LOOKED_AT:
            self._before[data] = _filled(data)

    def made(self, data: Any) -> None:
        """Look at it after a batch was made."""
        before, grown = self._before.pop(data, None), self._grown.get(data, [])
        if before is None:
            return
        grown.append({name: number - before[name] for name, number in _filled(data).items() if name in before})
        if len(grown) < LOOKED_AT:
            return
        first, *others = grown
        kept = [name for name, by in first.items() if by > 0 and all(one.get(name) == by for one in others)]
        if kept:
            self.found[data] = kept[0].partition(" ")[0]


def _filled(data: Any) -> dict[str, int]:
    """Return how much is in each mapping, list and cache of a data set and of what its code names, by their names.

    A list that becomes longer has another name with each length: it is a history, and items have places in a cache.
    """
    found: dict[str, int] = {}
    for name, one in [*all_of(data), *_caches(innermost(data))]:
        if isinstance(one, dict):
            found[name] = len(one) if all(map(_is_data, list(one.values())[-1:])) else 0
        elif isinstance(one, list) and len(one) <= LONGEST:
            found[f"{name} {len(one)}"] = sum(value is not None for value in one)
        elif callable(told := getattr(one, "cache_info", None)):
            found[name] = told().currsize
    return found


def _caches(data: Any) -> list[tuple[str, Any]]:
    """Return the methods of a data set that keep what they have returned (functools.cache)."""
    named = {name: one for kind in reversed(type(data).__mro__) for name, one in vars(kind).items()}
    return [(f".{name}", one) for name, one in named.items() if hasattr(one, "cache_info")]


def _is_data(value: Any) -> bool:
    """Return whether a value is one of an item, and no open file or connection."""
    if isinstance(value, (list, tuple, dict)):
        return all(map(_is_data, [*(value.values() if isinstance(value, dict) else value)][:4]))
    return isinstance(value, (*PLAIN, torch.Tensor)) or class_of(value)[0] in ("numpy", "PIL")
