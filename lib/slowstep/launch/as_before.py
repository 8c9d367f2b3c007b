"""Values that differ a little from one survey of a command to the next: the earlier ones are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slowstep.settings.command import Seen

MEASURED = {"garbage_collection_share": (0.01, 0.05), "rank_excess": (0.01, 0.05), "seconds_after_epoch": (1.0,)}
"""The values of a run that no two surveys find alike, shares of its time and seconds, with those from which on they
matter."""

ALIKE = 2.0
"""The factor by which such a value may differ from an earlier one and still count as the same."""


def as_before(values: Mapping[str, Seen], kept: object) -> dict[str, Seen]:
    """Return the values of a survey; measured ones that are about as large as in the file that was `kept` are as there.

    Other values would make another run of the same one: its reports would be drawn anew, and the time that they took
    forgotten.
    """
    found = dict(values)
    for name, thresholds in MEASURED.items():
        told: Any = kept
        for key in ("surveyed", "values", name, "value"):
            told = told.get(key) if isinstance(told, Mapping) else None
        if name in found and isinstance(told, float) and _are_alike(told, found[name].value, thresholds):
            found[name] = replace(found[name], value=told)
    return found


def _are_alike(one: float, other: float, thresholds: Sequence[float]) -> bool:
    small, large = sorted((one, other))
    sides = [sum(value >= threshold for threshold in thresholds) for value in (one, other)]
    return sides[0] == sides[1] and (not sides[0] or large <= ALIKE * small)
