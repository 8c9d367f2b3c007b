"""What a data set keeps of the items that it has read, so that later epochs find them in memory."""

from __future__ import annotations

from typing import Any

import torch

from slowstep_probe.data_sets.first_batches import FirstBatches, States, grown_steadily
from slowstep_probe.data_sets.held import PLAIN, all_of, class_of, innermost

LONGEST = 10**6
"""The largest list of which it is looked at how much of it is filled."""


class KeptItems(FirstBatches):
    """Notes which data sets keep what they read: a mapping, a list or a cache fills by as much with each batch.

    Each worker would keep items of its own, and lose them with the end of an epoch. What keeps open files is none.
    """

    def state(self, data: Any) -> dict[str, float]:
        """Return how much is in each mapping, list and cache of a data set and of what its code names, by their names.

        A list that becomes longer has another name with each length: it is a history, and items have places in a cache.
        """
        found: dict[str, float] = {}
        for name, one in [*all_of(data), *_caches(innermost(data))]:
            if isinstance(one, dict):
                found[name] = len(one) if all(map(_is_data, list(one.values())[-1:])) else 0
            elif isinstance(one, list) and len(one) <= LONGEST:
                found[f"{name} {len(one)}"] = sum(value is not None for value in one)
            elif callable(told := getattr(one, "cache_info", None)):
                found[name] = told().currsize
        return found

    def judged(self, data: Any, states: States) -> str:
        """Return the first that fills."""
        return next((name.partition(" ")[0] for name, by in grown_steadily(states).items() if by > 0), "")


def _caches(data: Any) -> list[tuple[str, Any]]:
    """Return the methods of a data set that keep what they have returned (functools.cache)."""
    named = {name: one for kind in reversed(type(data).__mro__) for name, one in vars(kind).items()}
    return [(f".{name}", one) for name, one in named.items() if hasattr(one, "cache_info")]


def _is_data(value: Any) -> bool:
    """Return whether a value is one of an item, and no open file or connection."""
    if isinstance(value, (list, tuple, dict)):
        return all(map(_is_data, [*(value.values() if isinstance(value, dict) else value)][:4]))
    return isinstance(value, (*PLAIN, torch.Tensor)) or class_of(value)[0] in ("numpy", "PIL")
