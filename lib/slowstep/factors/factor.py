"""The shape of a catalogue entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from slowstep.environment.machine import Machine
from slowstep.settings.run import Run

ALL_PHASES = frozenset({"data", "host_to_device", "forward", "backward", "optimizer", "log", "save", "evaluate"})


class Meaning(StrEnum):
    """What a change costs in meaning, from nothing to everything."""

    EXACT = "exact"
    """The same mathematics: only speed and memory change."""
    NUMERICS = "numerics"
    """The same training in another arithmetic."""
    SEMANTICS = "semantics"
    """Other data or another optimisation: not the same training."""
    DIAGNOSTIC = "diagnostic"
    """Shows a limit; nothing that one would train with."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """One value of a factor as a change of settings.

    `overrides` make the treatment; `given` is changed on both sides, for a factor that only exists in its presence
    (persistent workers need workers). `expects` is what the trial must observe if the change took effect. `meaning` is
    given where this step costs less than the factor's costliest.
    """

    value: Any
    overrides: dict[str, Any]
    given: dict[str, Any] = field(default_factory=dict)
    expects: dict[str, Any] = field(default_factory=dict)
    meaning: Meaning | None = None


@dataclass(frozen=True, kw_only=True)
class Factor:
    """One thing that can be changed."""

    name: str
    title: str
    hypothesis: str
    """What is claimed when the factor is tested; a reader of the report sees this sentence."""
    meaning: Meaning
    """Of its costliest level."""
    changes: str
    """What the change means beside speed, in words."""
    current: Callable[[Run], Any]
    level: Callable[[Any, Run], Level]
    touches: frozenset[str]
    """The phases it can touch; the others are negative controls."""
    examples: tuple[Any, ...]
    """Levels worth trying: documented, and each one run by the tests."""
    bound: str | None = None
    """Name of the bound in `slowstep.judgement.bounds`; None where nothing is known before the trial."""
    event: str | None = None
    """The occasional event that it changes, 'save' or 'evaluate': it counts in the comparison however rare it is."""
    shares_cores: bool = False
    """It moves work between CPU cores; where training itself runs on the CPU, that touches every phase."""
    requires: Callable[[Any, Run, Machine], str | None] = lambda value, run, machine: None
    """What this machine lacks for a level, or None."""
    refuses: Callable[[Any, Run], str | None] = lambda value, run: None
    """Why a run of these settings can't have a level, whatever the machine, or None."""
    unmet: Callable[[Run], str | None] = lambda run: None
    """Why trials of these settings can't meet what the factor acts on, or None; asked if no bound refutes it."""
    accepts: Callable[[Any], str | None] = lambda value: None
    """What is wrong with a level's value as a user wrote it, or None."""

    def meaning_of(self, level: Level) -> Meaning:
        """What this level costs in meaning."""
        return level.meaning or self.meaning

    def touched(self, device: str) -> frozenset[str]:
        """The phases this factor can touch on `device` ('cpu' or 'cuda')."""
        if device == "cpu":
            return ALL_PHASES if self.shares_cores else self.touches
        # the device runs the optimizer while the host fetches the next batch: a shorter one lengthens the other's wait
        behind = {"data", "host_to_device"} if "optimizer" in self.touches else set()
        return self.touches | behind


def show(value: Any) -> str:
    """A level's value as labels show it: `true`, not `True`."""
    if isinstance(value, list):
        return ",".join(map(show, value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def show_all(values: Mapping[str, Any]) -> str:
    """Settings by their own names: `dataloader_num_workers=2, tokenize=once`."""
    return ", ".join(f"{key.rpartition('.')[2]}={show(value)}" for key, value in values.items())
