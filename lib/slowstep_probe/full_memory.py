"""The words by which the system and its libraries say that memory ran out, on a device or on the host."""

from __future__ import annotations

TEXTS = (
    "out of memory",
    "_STATUS_NOT_INITIALIZED",  # CUDA's libraries make themselves room where they begin
    "_STATUS_ALLOC_FAILED",
    "_ALLOCATION_FAILED",
    "can't allocate memory",
    "not enough memory",
    "Cannot allocate memory",
)


def is_told(text: str) -> bool:
    """Return whether the text of an error, or the last words of a process, say that memory ran out."""
    return any(words in text for words in TEXTS)
