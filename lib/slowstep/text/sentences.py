"""Texts at the beginning of a sentence, and as a whole one."""

from __future__ import annotations


def capitalised(text: str) -> str:
    """Return a text with a capital letter first, and all else as it is."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """Return a text as a sentence: with a capital letter first and a full stop at the end."""
    return capitalised(text) + ("" if text.endswith((".", "!", "?")) else ".")
