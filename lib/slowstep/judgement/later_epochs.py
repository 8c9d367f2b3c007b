"""What later epochs of a program train otherwise than the first, and why epochs end in its trials."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.records import TrialRecord
from slowstep.settings.epochs import GROWS, LATER, LOADERS, why_epochs_end
from slowstep.settings.run import Run

WHY = {
    LATER: "later epochs train something else than the first",
    LOADERS: "the program goes on with another loader after one",
    GROWS: "its steps grow longer within an epoch and are short again after it",
}
"""Why epochs end in trials, by what a survey saw."""

NAMES = {
    "weights": "{} weights can be trained",
    "updates": "a step makes {} updates",
    "samples": "a step has {} samples",
}
"""What may differ, by the names that a survey gives it."""


def epochs_end_since(run: Run, trials: Sequence[TrialRecord]) -> str:
    """Return why epochs end in some of the `trials` of a command, as a clause; empty if they go on without end."""
    why = next(filter(None, (why_epochs_end(run, seen) for seen in ({}, *(one.observed for one in trials)))), "")
    if why == LATER:
        return f"{WHY[LATER]}: {_differences(run)}"
    return WHY.get(why) or (f"a trial failed where it let one go on beyond its own end ({why})" if why else "")


def unlike_first(run: Run) -> str:
    """Return why no one pace is that of all epochs, as a clause; empty if nothing is known to speak against it."""
    why = why_epochs_end(run)
    if why == LATER:
        return f"{WHY[LATER]} ({_differences(run)}), and the pairs don't tell how many steps are of either kind"
    if run.objects is not None and run["loaders_of_several_lines"]:
        return "it trains on loaders of several lines by turns, and no one of them is an epoch"
    return f"{WHY[GROWS]}, and pairs see parts of epochs" if why == GROWS else ""


def _differences(run: Run) -> str:
    differences = [
        f"{NAMES[name].format(f'{later:,}')} after it and {first:,} in it"
        for name, (first, later) in run["later_epochs"].items()
        if name in NAMES
    ]
    return "; ".join(differences)
