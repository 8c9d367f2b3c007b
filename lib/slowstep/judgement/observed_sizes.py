"""Sizes that follow from the facts which a trial observed."""

from __future__ import annotations

import math
from collections.abc import Mapping


def ranks_of(observed: Mapping[str, object]) -> int:
    """Return the number of ranks of a trial; 1 where it is not known."""
    return int(observed.get("world_size") or 1)


def loaders_of_step(observed: Mapping[str, object]) -> int:
    """Return the number of loaders that each step draws from; 1 where it is not known.

    Samples are counted for one of them.
    """
    several = observed.get("loaders_of_step")
    return several if isinstance(several, int) else 1


def samples_of_step(observed: Mapping[str, object]) -> int:
    """Return the samples of an optimizer step of all ranks together. What is not known counts as 1."""
    names = ("per_device_train_batch_size", "gradient_accumulation_steps")
    return ranks_of(observed) * math.prod(int(observed.get(name) or 1) for name in names)


def positions_of_sample(observed: Mapping[str, object]) -> float | None:
    """Return the mean positions a sample over a whole epoch, padding included; None where lengths are not known."""
    positions, steps = observed.get("epoch_padded_tokens"), observed.get("epoch_steps")
    if not isinstance(positions, int) or not isinstance(steps, int) or not steps:
        return None
    return positions / (steps * samples_of_step(observed))
