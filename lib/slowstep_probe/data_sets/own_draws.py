"""Generators of random numbers of which each worker would have a copy."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Callable
from typing import Any

import torch

from slowstep_probe.by_identity import ByIdentity
from slowstep_probe.data_sets.held import LOOKED_AT, all_of, class_of

GENERATORS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("numpy", "Generator"): lambda one: one.bit_generator.state,
    ("numpy", "RandomState"): lambda one: one.get_state(),
    ("random", "Random"): lambda one: one.getstate(),
    ("torch", "Generator"): lambda one: one.get_state().numpy(),
}
"""Classes whose objects give random numbers, each with a function that returns their state."""


class OwnDraws:
    """Notes which data sets draw from a generator of their own while they make a batch.

    Each worker has a copy of the data set, and so of its generator: workers would draw the same numbers.
    """

    def __init__(self) -> None:
        self.found: ByIdentity[str] = ByIdentity()
        """The attribute or the name by which a data set has the generator."""
        self._generators: ByIdentity[list[tuple[str, Any]]] = ByIdentity()
        self._states: ByIdentity[list[bytes]] = ByIdentity()
        self._batches: ByIdentity[int] = ByIdentity()

    def asked(self, data: Any) -> None:
        """Look at a data set before one of its first batches is made."""
        self._batches[data] = self._batches.get(data, 0) + 1
        if data in self.found or self._batches[data] > LOOKED_AT:
            return
        if data not in self._generators:
            found = [(name, one) for name, one in all_of(data) if class_of(one) in GENERATORS]
            self._generators[data] = [(name, one) for name, one in found if not _is_seeded_in_workers(one)]
        self._states[data] = self._now(data)

    def made(self, data: Any) -> None:
        """Look at it after a batch was made."""
        before = self._states.pop(data, [])
        drawn = [was != now for was, now in zip(before, self._now(data) if before else [], strict=True)]
        names = [name for name, _ in self._generators.get(data, [])]
        if any(drawn):
            self.found[data] = names[drawn.index(True)]

    def _now(self, data: Any) -> list[bytes]:
        return [pickle.dumps(GENERATORS[class_of(one)](one)) for _, one in self._generators[data]]


def _is_seeded_in_workers(one: Any) -> bool:
    """Return whether a generator is one of those that a loader seeds anew in each worker."""
    of_numpy = getattr(getattr(sys.modules.get("numpy.random"), "mtrand", None), "_rand", None)
    return any(one is other for other in (random._inst, torch.default_generator, of_numpy))  # type: ignore[attr-defined]
