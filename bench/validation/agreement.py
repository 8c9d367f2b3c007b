"""Whether the size of a gain, as the kit states it, agrees with the truth."""

from __future__ import annotations

import math

from bench.validation.truth import Truth

FAR = math.log(1.25)
"""Two estimates of a gain may differ by so much: 2.0 and 2.5 times."""


def agree(stated: tuple[float, float, float] | None, truth: Truth | None) -> bool:
    """Return whether the two intervals meet, and the two estimates are no further apart than `FAR`."""
    if truth is None or stated is None:
        return truth is None
    near = abs(math.log(stated[0] / truth.ratio)) <= FAR
    return near and stated[1] <= truth.high and truth.low <= stated[2]
