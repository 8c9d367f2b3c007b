"""The speed-up that a claim states, and whether a gain contradicts it."""

from __future__ import annotations

from slowstep.audit.figures import Figure, figure
from slowstep.audit.findings import times
from slowstep.audit.relations import CONSEQUENCE
from slowstep.settings.reported import Claim

MOST = 1e9
"""The upper end, as a ratio, of a claim that something is faster by any amount."""

ABOUT = 0.05
"""The share by which the size of a claim may be off that is given as a whole number: "twice as fast", "no slower"."""


def stated_speed_up(claim: Claim) -> Figure | None:
    """Return the claimed speed-up: `>1` is anything faster, `1/3` three times slower; None where no size is given."""
    said = claim.speed_up
    if isinstance(said, str) and said[:1] in ("<", ">"):
        end = figure(said[1:]).middle
        return Figure(0.0, end) if said[0] == "<" else Figure(end, MOST)
    if isinstance(said, str) and said.startswith("1/"):
        return 1 / _size(said[2:])
    return None if said is None else _size(said)


def _size(said: object) -> Figure:
    """Return a claimed size. One without decimals is not exact, and not as wide as its rounding either."""
    found = figure(said)
    whole = found.middle == round(found.middle) and found.high - found.low > 2 * ABOUT * found.middle > 0
    return Figure((1 - ABOUT) * found.middle, (1 + ABOUT) * found.middle, found.middle) if whole else found


def contradicts(gain: Figure, stated: Figure) -> bool:
    """Return whether a gain is not what was claimed. A claim of a size has a tolerance, and an inequality has none."""
    of_a_size = stated.low > 0 and stated.high < MOST
    return gain.gap(stated) > CONSEQUENCE or not (of_a_size or gain.meets(stated))


def claimed(stated: Figure) -> str:
    """Return a claimed size in words: `2.11 times`, `more than 1.5 times`."""
    if stated.high == MOST:
        return f"more than {times(stated.low)}"
    return f"less than {times(stated.high)}" if stated.low == 0 else times(stated.middle)
