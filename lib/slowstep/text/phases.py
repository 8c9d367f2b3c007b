"""The phases of a step, as reports name them."""

from __future__ import annotations

PHASE_NAMES = {
    "data": "data wait",
    "host_to_device": "copy to device",
    "forward": "forward",
    "backward": "backward",
    "communication": "communication",
    "optimizer": "optimizer",
    "log": "logging",
    "save": "saving",
    "evaluate": "evaluating",
    "other": "other",
}
"""The phases as charts and tables name them."""

IN_SENTENCES = {
    "evaluate": "running the model without training it",
    "other": "time between the phases",
}
"""The phases that sentences name at more length."""


def phase_named(phase: str) -> str:
    """Return a phase as the name of something in a sentence."""
    return IN_SENTENCES.get(phase, PHASE_NAMES[phase])
