"""Why epochs end in a command's trials as the program has them.

Trials let an epoch go on without end, so that no time is lost on what a program does between epochs. That is right
where all steps are alike. Epochs end where a survey saw that they are not, or where a trial failed beyond the end of
its own epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from slowstep.settings.command import Seen
from slowstep.settings.run import Run
from slowstep.settings.settings import Settings

LOADERS, LATER, GROWS = "loaders by turns", "later epochs", "growing epochs"
"""What a survey saw: training goes over several loaders by turns, later epochs train something else than the first, or
steps grow longer within an epoch and are short again after it."""

FAILED = "epochs_end"
"""The key of a run, and of what its trials observe, that holds how one failed beyond the end of its own epoch."""


def why_epochs_end(run: Run, observed: Mapping[str, object] = MappingProxyType({})) -> str:
    """Return why epochs end in the trials of a command: one of the above, or how a trial failed; empty if they don't.

    `observed` are the facts of such a trial, if there was one.
    """
    if run.objects is None:  # a described run counts its own steps
        return ""
    seen = {LATER: "later_epochs", LOADERS: "loaders_by_turns", GROWS: "grows_within_epoch"}
    return next((why for why, key in seen.items() if run[key]), str(run[FAILED] or observed.get(FAILED) or ""))


def with_epochs_that_end(settings: Settings, failed: str) -> Settings:
    """Return the settings of a command with epochs that end, since a trial `failed` beyond the end of its own."""
    values = settings.surveyed.values | {FAILED: Seen(value=failed)}
    return replace(settings, surveyed=replace(settings.surveyed, values=values))
