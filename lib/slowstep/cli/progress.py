"""The progress of an investigation on a terminal."""

from __future__ import annotations

from slowstep.measure.progress import Progress
from slowstep.text.terminal import is_live, say, say_over


class Terminal:
    """The progress as one live line on a terminal, or as plain lines in a log."""

    def __init__(self, investigation: str):
        self.investigation, self.live, self.last = investigation, is_live(), ""

    def __call__(self, what: str, progress: Progress | None) -> None:
        line = progress.line() if progress and progress.notebook == what else what
        if self.live:
            say_over(f"{self.investigation}  {line}", ended=not progress and ":" in what)
        elif progress is None and line != self.last and ":" in line:
            say(f"{self.investigation}  {line}")
        elif progress and (progress.comparison, progress.pair) != self.last:
            self.last = (progress.comparison, progress.pair)
            say(f"{self.investigation}  {line}")
