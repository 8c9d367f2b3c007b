"""What disturbed blocks from outside, without how much it was."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

HOW_MUCH = re.compile(r"(?<=took |used )[\d.,]+ %")
"""How much others took, in `Block.interrupted`, which differs from block to block."""


def disturbances(reasons: Iterable[str | None]) -> list[tuple[str, int]]:
    """Return what interrupted blocks, each with their number, most first. None among the reasons is a quiet block."""
    return Counter(HOW_MUCH.sub("part", one) for one in reasons if one).most_common()
