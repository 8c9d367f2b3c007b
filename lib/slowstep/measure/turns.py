"""The arm that trains first in each pair: drawn by chance, and each arm once in every two pairs.

The arm that trains second may have an advantage, whichever it is: it finds in memory the files that the first one read
from a disk, or a processor that has woken up. If each pair were drawn by itself, the same arm would be second in all of
three pairs with a chance of a quarter. These pairs would agree on a gain that does not exist, with so little scatter
that it would look certain. With each arm second in one of two pairs, such an advantage is seen as scatter.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

BASELINE, TREATMENT = 0, 1
SIDES = ("baseline", "treatment")
"""The sides of a comparison, and their names in records."""


def draw_first_sides(seed: int) -> Iterator[int]:
    """Yield the side that trains first, pair by pair, without end."""
    draw = random.Random(seed)
    while True:
        yield from draw.sample((BASELINE, TREATMENT), 2)
