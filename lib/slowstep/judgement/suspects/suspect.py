"""A phase with lost time: how much, why, and what it consists of."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from slowstep.judgement.intervals import Interval
from slowstep.judgement.operators import ProfileShare, profile_error
from slowstep.judgement.throughput import speed_up
from slowstep.records import ProfileRecord

TRAINS_NOTHING = ("data", "host_to_device", "communication", "log", "save", "evaluate")
"""The phases that train nothing, whatever they consist of."""

PASSES = ("forward", "backward")

NAMED = 0.5
"""A place or an operator is named if it takes at least this part of the least time that matters."""

MOST_NAMED = 3
"""The most places or operators that are named of a suspect."""

LINE = re.compile(r"(?P<file>\S+):(?P<line>\d+)(, \d+)*( and others)? in (?P<function>[^\s,]+)")
"""A place in the code, `train.py:7 in dice`, or several of one function."""


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A phase with lost time: `share`, 0 to 1, is the part of the wall time that a healthy run would not spend."""

    phase: str
    share: Interval
    why: str
    consists_of: list[str] = field(default_factory=list)
    """Lines of code or operators, with their shares, largest first."""
    mostly: str = ""
    """The largest of them, or the function of several lines that take more together; empty if there is none."""
    rank: int | None = None
    """The rank that the others wait for; None if that is no matter of one rank."""
    node: int | None = None
    """The node of that rank."""
    ordinary: float = 0.0
    """The share of the wall time that the phase takes beside the lost one. Each step still takes as long without the
    loss."""
    ordinary_at_most: float = 0.0
    """The most that this may be: what is lost is known within its interval."""
    back_through: str = ""
    """The phase of what it goes back through, such as a loop, if it is the way back through that; else empty."""
    does: str = ""
    """What is done there, or what a way back goes through: `LOOP`, `MOVING`, `AGAIN`, `IGNORED`, `TABLES` or one of
    `WRITTEN_OUT`. Else empty."""
    does_at: str = ""
    """The line that does it; for a way back, the line that it goes back through. Its phase if no one line is known."""
    other_pass: Interval | None = None
    """The share that the same takes of the other pass, if both are held against what matters together."""
    comparable: bool = True
    """True if the blocks of a changed run tell how much of it is left. A profile tells only about the baseline."""

    @property
    def at(self) -> str:
        """Return where most of it is in few words; empty if that is not known."""
        return self.mostly or next(iter(self.consists_of), "")

    @property
    def of_both(self) -> tuple[float, float]:
        """Return the least and the most of the wall time that it takes, with what it takes of the other pass."""
        shares = [self.share, self.other_pass] if self.other_pass else [self.share]
        return sum(share.lower for share in shares), sum(share.upper for share in shares)

    def is_gone_back_through(self, way: Suspect) -> bool:
        """Return whether another one is the way back through what this one does at some place."""
        there, back = (self.does, self.does_at), (way.does, way.does_at)
        return bool(way.does_at) and way.back_through == self.phase and there == back

    @property
    def ratio(self) -> float:
        """Return the speed-up if that time were gone, as a ratio."""
        return speed_up(self.share.mean)

    @property
    def least(self) -> float:
        """Return the same speed-up at the lower end of the share."""
        return speed_up(self.share.lower)

    @property
    def most(self) -> float:
        """Return the same speed-up at the upper end of the share."""
        return speed_up(self.share.upper)


def from_profile(known: float, within: Interval, profile: ProfileRecord) -> Interval:
    """Return the interval of a share that a profile of a few steps gives: a part of `within`, and at most that."""
    by = profile_error(profile)
    upper = min(known * by, within.upper)
    return Interval(mean=min(known, upper), lower=min(known / by, upper), upper=upper, p=1.0, n=within.n)


def largest(parts: Sequence[ProfileShare]) -> dict[str, Any]:
    """Return what a suspect consists of, as `Suspect` holds it, from its parts, largest first."""
    return {"consists_of": [str(part) for part in parts[:MOST_NAMED]], "mostly": _mostly(parts)}


def _mostly(parts: Sequence[ProfileShare]) -> str:
    """Return the function whose lines take most, `train.py:7, 9 in dice 35 %`, or a part that takes more alone."""
    together = defaultdict[tuple[str, ...], list[ProfileShare]](list)
    for part in parts:
        at = LINE.match(part.what)
        together[at.group("file", "function") if at else (part.what,)].append(part)
    most = max(together.values(), key=lambda some: sum(part.share for part in some), default=[])
    if len(most) < 2:
        return "".join(map(str, most))
    at = [LINE.match(part.what) for part in most]
    every = list(dict.fromkeys(one["line"] for one in at))
    lines = ", ".join(every[:MOST_NAMED]) + " and others" * (len(every) > MOST_NAMED)
    return str(
        ProfileShare(what=f"{at[0]['file']}:{lines} in {at[0]['function']}", share=sum(part.share for part in most))
    )


def function_at(place: str) -> tuple[str, ...]:
    """Return the file and the function of the place in a text, `train.py:7 in dice 20 %`; () if it has none."""
    at = LINE.search(place)
    return at.group("file", "function") if at else ()


def place_at(part: str) -> str:
    """Return the line of a part of a suspect, `train.py:7 in dice` of `train.py:7 in dice 20 %`; "" if it is none."""
    at = LINE.match(part)
    return at.group() if at else ""
