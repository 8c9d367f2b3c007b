"""The closing lines of an investigation: what it took, and how to reach what its minutes did not."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Sequence

from slowstep.investigation.results import Decision
from slowstep.judgement.verdict import Verdict
from slowstep.settings import Settings
from slowstep.settings.command import AsMeasured, Command
from slowstep.text.numbers import in_minutes, percentage

NARROWEST, WIDEST = 40, 120
"""The fewest and the most columns of a text."""

OVER = 1.1
"""It is told how long an investigation took if that is more than this many times its minutes."""

MINUTES = "budget.minutes"
"""The key that a reason names wherever no time was left."""


def wrapped(text: str) -> str:
    """Return a text in lines as wide as the terminal."""
    width = min(WIDEST, max(NARROWEST, shutil.get_terminal_size().columns))
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def unreached(verdicts: Sequence[Verdict], decision: Decision) -> bool:
    """Return whether the minutes left something undecided: a hypothesis, or what would be adopted."""
    return any(v.untried for v in verdicts) or any(MINUTES in one.why for one in decision.refused)


def time_taken(settings: Settings, seconds: float, measured: float) -> str:
    """Return what an investigation took in all its calls, and how much of that was in `measured` blocks, as a line."""
    given = settings.budget.minutes
    of = "" if given is None else f" ({MINUTES}: {given:g})"
    share = f"{in_minutes(measured)} ({percentage(measured / seconds)})" if seconds else "none"
    return f"{settings.name}: took {in_minutes(seconds)} in all calls{of}, of which {share} in measured blocks"


def more_minutes(settings: Settings, seconds: float) -> str:
    """Return how an investigation goes on that took so many seconds, in all its calls, and did not reach all.

    It is given twice as long. The text is empty if no minutes end its measuring.
    """
    minutes = settings.budget.minutes
    if minutes is None:
        return ""
    more = math.ceil(2 * max(minutes, seconds / 60))
    how = f"--minutes {more} (or {MINUTES}={more}) goes on"
    were = "minute, earlier calls included, was" if minutes == 1 else "minutes, earlier calls included, were"
    over = f" (it took {in_minutes(seconds)}: what is begun comes to its end)" if seconds > OVER * 60 * minutes else ""
    return f"{settings.name}: {minutes:g} {were} not enough for all{over}; {how}"


def edited_meanwhile(command: Command | None, as_begun: AsMeasured) -> str:
    """Return which files of a command were edited while it was measured, and what that means; empty if none was."""
    edited = [command.shown(file) for file in as_begun.digests if as_begun.differs(file)] if command else []
    if not edited:
        return ""
    were = "was" if len(edited) == 1 else "were"
    return f"{' and '.join(edited)} {were} edited meanwhile: what was measured before that does not count any more"
