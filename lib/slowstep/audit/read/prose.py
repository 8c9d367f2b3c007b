"""Sizes that the prose of a Markdown file claims beside its tables. It is not read, and that is said."""

from __future__ import annotations

import re

CLAIMED = re.compile(
    r"\d\s?(?:%|x|×|percent|times)\s+(?:\w+\s+){0,2}"
    r"(?:faster|slower|quicker|cheaper|less|more|speed-?up|improvement|gain)",
    re.IGNORECASE,
)
"""What a line of prose has that claims a size."""


def unread_claims(text: str) -> list[str]:
    """Ask for the claims of a Markdown text, if a line outside its tables claims a size."""
    claims = any(CLAIMED.search(line) for line in text.split("\n") if "|" not in line)
    return ["the text beside its tables claims sizes, and is not read: which are to be judged (`claims`)?"] * claims
