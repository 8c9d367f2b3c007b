"""Whether a program draws random numbers while it trains, so that two runs of it can differ by chance."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

from slowstep_probe import devices


class RandomDraws:
    """Looks at the states of the global random number generators."""

    def __init__(self) -> None:
        self.seen = False
        """True if any of them moved between two looks."""
        self._before: dict[Any, Any] = {}

    def look(self) -> None:
        """Look at them now."""
        now = _states()
        self.seen = self.seen or any(now[which] != state for which, state in self._before.items() if which in now)
        self._before = now


def _states() -> dict[Any, Any]:
    """Return the states of the generators by their owners; those of devices by their numbers."""
    states: dict[Any, Any] = {"random": random.getstate(), "torch": torch.get_rng_state().tolist()}
    if "numpy" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state(legacy=True)
        states["numpy"] = (kind, keys.tolist(), rest)
    return states | {number: torch.cuda.get_rng_state(number).tolist() for number in devices.used()}
