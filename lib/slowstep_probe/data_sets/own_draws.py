"""Generators of random numbers of which each worker would have a copy."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Callable
from typing import Any

import torch

from slowstep_probe.by_identity import ByIdentity
from slowstep_probe.data_sets.first_batches import FirstBatches, States
from slowstep_probe.data_sets.held import all_of, class_of

GENERATORS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("numpy", "Generator"): lambda one: one.bit_generator.state,
    ("numpy", "RandomState"): lambda one: one.get_state(),
    ("random", "Random"): lambda one: one.getstate(),
    ("torch", "Generator"): lambda one: one.get_state().numpy(),
}
"""Classes whose objects give random numbers, each with a function that returns their state."""


class OwnDraws(FirstBatches):
    """Notes which data sets draw from a generator of their own while they make a batch.

    Each worker has a copy of the data set, and so of its generator: workers would draw the same numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._generators: ByIdentity[list[tuple[str, Any]]] = ByIdentity()
        """The generators that a data set had before its first batch."""

    def state(self, data: Any) -> dict[str, bytes]:
        """Return the states of generators."""
        if data not in self._generators:
            found = [(name, one) for name, one in all_of(data) if class_of(one) in GENERATORS]
            self._generators[data] = [(name, one) for name, one in found if not _is_seeded_in_workers(one)]
        states: dict[str, bytes] = {}
        for name, one in self._generators[data]:
            states[name] = states.get(name, b"") + pickle.dumps(GENERATORS[class_of(one)](one))
        return states

    def judged(self, data: Any, states: States) -> str:
        """Return the first generator that the last batch was drawn from."""
        before, after = states[-1]
        return next((name for name, state in before.items() if after[name] != state), "")


def _is_seeded_in_workers(one: Any) -> bool:
    """Return whether a generator is one of those that a loader seeds anew in each worker."""
    of_numpy = getattr(getattr(sys.modules.get("numpy.random"), "mtrand", None), "_rand", None)
    return any(one is other for other in (random._inst, torch.default_generator, of_numpy))  # type: ignore[attr-defined]
