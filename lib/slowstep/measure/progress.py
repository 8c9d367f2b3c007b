"""The progress of a comparison: a line on a terminal or in a notebook."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A comparison under way: pair number `pair` of at most `of`. `remaining` is in seconds, at most."""

    notebook: str
    comparison: str
    pair: int
    of: int
    estimate: str = ""
    began: float = 0.0
    """The time when the comparison began, by `time.monotonic()`, which all processes share."""
    remaining: float | None = None

    @property
    def part(self) -> float | None:
        """Return the part, 0 to 1, of the most pairs that is measured; None for what is no comparison."""
        return min(1.0, self.pair / self.of) if self.of else None

    def line(self, now: float | None = None) -> str:
        """Return one line: notebook, comparison, pair n of at most m, running estimate, elapsed, remaining."""
        elapsed = (time.monotonic() if now is None else now) - self.began
        left = f", at most {self.remaining:.0f} s left" if self.remaining is not None else ""
        estimate = f"  {self.estimate}" if self.estimate else ""
        pair = f"  {'' if self.pair else 'launching, '}pair {max(1, self.pair)} of at most {self.of}" if self.of else ""
        return f"{self.notebook}  {self.comparison}{pair}{estimate}  {elapsed:.0f} s{left}"
