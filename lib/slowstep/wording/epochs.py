"""Epochs that end in trials, in words."""

from __future__ import annotations


def epochs_end(why: str) -> str:
    """Return that epochs end in trials, and why, as a sentence; empty if they go on without end."""
    return f"Epochs end in trials as in the program, since {why}." if why else ""
