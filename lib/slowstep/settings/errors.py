"""Messages about mistakes in a parameter file, worded so that a user can correct them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Sentence(Exception):
    """An error whose text is all that its reader needs. A notebook shows the text, and no traceback of the library."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows below a cell."""
        return str(self).splitlines()


class SettingsError(Sentence, ValueError):
    """A parameter file or an override that can't be used.

    `str(error)` is the whole message for the person who wrote it. Each problem is one line, with the place, what was
    found there, what is allowed, and the nearest valid name.
    """

    def __init__(self, problems: Iterable[str] | str):
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return a hint to end a message with: ` Did you mean 'x'?`, or a short list of what is allowed, or nothing."""
    names = sorted(str(v) for v in valid)
    if close := nearest_of(name, names):
        return f" Did you mean '{close}'?"
    if 0 < len(names) <= 12:
        return f" Allowed: {', '.join(names)}."
    return ""


def nearest_of(name: str, valid: Iterable[str]) -> str:
    """Return the valid name that a mistyped one is nearest to; empty if it is near to none."""
    return next(iter(difflib.get_close_matches(name, sorted(valid), n=1, cutoff=0.6)), "")
