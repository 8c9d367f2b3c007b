"""The numbers that a model is called with for each sample: they tell a program that trains on a part of its batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from slowstep_probe.looks import looking
from slowstep_probe.probe.batch_work import tensors

LOOKED_AT = 50
"""The batches that are looked at, the first ones of a launch."""


class ModelInputs:
    """Sums over batches of a loader: their samples, and the numbers that the model is first called with for each."""

    def __init__(self) -> None:
        self._batches = 0
        self._samples: Counter[str] = Counter()
        """The samples of the batches with which an argument was seen: of the first call, those by name are not."""
        self._numbers: Counter[str] = Counter()
        self.add = looking(self._add)

    def _add(self, samples: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if not samples or self._batches == LOOKED_AT:
            return
        self._batches += 1
        for name, value in ({str(at): value for at, value in enumerate(args)} | dict(kwargs)).items():
            self._samples[name] += samples
            self._numbers[name] += sum(tensor.numel() for tensor in tensors(value))

    def of_a_sample(self) -> dict[str, float]:
        """Return the numbers in each argument for each sample, on average; {} if no batch of a loader was met."""
        return {name: round(number / self._samples[name], 3) for name, number in self._numbers.items() if number}
