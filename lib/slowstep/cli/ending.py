"""What is said at the end of an investigation: its answer, and how to reach what its minutes did not."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Sequence

from slowstep.investigation.results import Decision
from slowstep.judgement.verdict import Verdict
from slowstep.settings import Settings
from slowstep.settings.command import AsMeasured, Command

NARROWEST, WIDEST = 40, 120
"""The fewest and the most columns of a text."""

MINUTES = "budget.minutes"
"""The key that a reason names wherever no time was left."""


def wrapped(text: str) -> str:
    """Return a text in lines as wide as the terminal."""
    width = min(WIDEST, max(NARROWEST, shutil.get_terminal_size().columns))
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def unreached(verdicts: Sequence[Verdict], decision: Decision) -> bool:
    """Return whether the minutes left something undecided: a hypothesis, or what would be adopted."""
    return any(v.untried for v in verdicts) or any(MINUTES in one.why for one in decision.refused)


def more_minutes(settings: Settings, seconds: float) -> str:
    """Return how an investigation goes on that took so many seconds, in all its calls, and did not reach all.

    It is given twice as long. The text is empty if no minutes end its measuring.
    """
    minutes = settings.budget.minutes
    if minutes is None:
        return ""
    more = math.ceil(2 * max(minutes, seconds / 60))
    how = f"--minutes {more} (or {MINUTES}={more}) goes on"
    return f"{settings.name}: {minutes:g} minutes, earlier calls included, were not enough for all; {how}"


def edited_meanwhile(command: Command | None, as_begun: AsMeasured) -> str:
    """Return which files of a command were edited while it was measured, and what that means; empty if none was."""
    edited = [command.shown(file) for file in as_begun.digests if as_begun.differs(file)] if command else []
    if not edited:
        return ""
    were = "was" if len(edited) == 1 else "were"
    return f"{' and '.join(edited)} {were} edited meanwhile: what was measured before that does not count any more"
