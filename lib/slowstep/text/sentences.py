"""Texts at the beginning of a sentence, as a whole one, and in a list."""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST = 10
"""The most things that a list in a sentence names."""


def capitalised(text: str) -> str:
    """Return a text with a capital letter first, and all else as it is."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """Return a text as a sentence: with a capital letter first and a full stop at the end."""
    return capitalised(text) + ("" if text.endswith((".", "!", "?")) else ".")


def first_of(text: str) -> tuple[str, str]:
    """Return the first sentence of a text, and what comes after it; the whole text where no other one begins."""
    first, *rest = re.split(r"(?<=\.) (?=[A-Z])", text, maxsplit=1)
    return first, "".join(rest)


def listed(things: Sequence[str], between: str = ", ") -> str:
    """Return the first things of a list, and how many more there are: `a, b and 97 more`."""
    more = f" and {len(things) - MOST:,} more" if len(things) > MOST else ""
    return between.join(things[:MOST]) + more
