"""The shape of a catalogue entry: a factor and its levels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from slowstep.environment.machine import Machine
from slowstep.settings.convert import describe
from slowstep.settings.run import Run
from slowstep_probe.measured import PHASES, WHERE_RANKS_WAIT

ALL_PHASES = frozenset(PHASES) - {"other"}

EXCHANGE = WHERE_RANKS_WAIT
"""The phases in which ranks exchange what they have computed."""


class Meaning(StrEnum):
    """The classes of changes, by what they do to the meaning of training, from nothing to everything."""

    EXACT = "exact"
    """The same mathematics: only speed and memory change."""
    NUMERICS = "numerics"
    """The same training in another arithmetic."""
    SEMANTICS = "semantics"
    """Training with other data or another optimisation: not the same training."""
    DIAGNOSTIC = "diagnostic"
    """Shows a limit; nobody would train with it."""


class Binding(StrEnum):
    """The places where a change can be made."""

    TRAINING_ARGUMENTS = "TrainingArguments"
    OPTIMIZER = "optimizer"
    MODEL = "model"
    TORCH = "torch"
    ENVIRONMENT = "environment"
    OPTION = "an option of the command"
    PROCESSES = "the processes that train"
    WORKLOAD = "the kit's own workload"


BINDS = {
    "training_arguments": Binding.TRAINING_ARGUMENTS,
    "model": Binding.MODEL,
    "model.sdpa_backend": Binding.TORCH,
    "peft": Binding.MODEL,
    "quantization": Binding.MODEL,
    "dataset": Binding.WORKLOAD,
    "optimizer_kwargs": Binding.OPTIMIZER,
    "process": Binding.TORCH,
    "processes": Binding.PROCESSES,
    "nodes": Binding.PROCESSES,
    "ddp": Binding.MODEL,
    "fsdp": Binding.MODEL,
    "zero_optimization": Binding.MODEL,
    "process.expandable_segments": Binding.ENVIRONMENT,
    "process.garbage_collection": Binding.ENVIRONMENT,
    "process.debug_environment": Binding.ENVIRONMENT,
    "freed_memory": Binding.ENVIRONMENT,
    "given": Binding.OPTION,
}
"""The binding of each section of the settings, and of keys that bind elsewhere than their section."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """One value of a factor as a change of settings.

    `overrides` make the treatment. `keeps` is set with them, so that nothing else changes (compiling would switch TF32
    on); another level may say otherwise. `held_constant` is set in both arms, for a factor that exists only beside it
    (persistent workers need workers). `expects` holds the facts that the trial must observe if the change took effect.
    `meaning` is set where this level costs less than the factor's costliest.
    """

    value: Any
    overrides: dict[str, Any]
    keeps: dict[str, Any] = field(default_factory=dict)
    held_constant: dict[str, Any] = field(default_factory=dict)
    expects: dict[str, Any] = field(default_factory=dict)
    meaning: Meaning | None = None

    @property
    def changes(self) -> dict[str, Any]:
        """Return all that it sets in the treatment, by key, if no other level stands beside it."""
        return self.keeps | self.overrides

    @property
    def binds(self) -> frozenset[Binding]:
        """Return the places where the change is made."""
        return frozenset(BINDS.get(key) or BINDS[re.split(r"[.\[]", key)[0]] for key in self.overrides)


@dataclass(frozen=True, kw_only=True)
class Factor:
    """One thing that can be changed."""

    name: str
    title: str
    hypothesis: str
    """The claim that is tested, as one sentence; readers of the report see it."""
    cause: str | Callable[[Any, Any], str]
    """The cost that a faster level takes away, as a singular subject: "Tokenising each example …" costs so much of the
    time. A function of the run's own value and the level's where the direction of the change decides what it is."""
    meaning: Meaning
    """The meaning of its costliest level."""
    changes: str
    """The effect of the change beside speed, in words."""
    current: Callable[[Run], Any]
    """Returns the run's own value."""
    level: Callable[[Any, Run], Level]
    """Returns a value as a change of the run's settings."""
    touches: frozenset[str]
    """The phases it can touch; the others are negative controls."""
    examples: tuple[Any, ...]
    """Levels worth trying: documented, and each one run by the tests."""
    bound: str | None = None
    """The name of its bound in `slowstep.judgement.bounds`; None where nothing is known before the trial."""
    event: str | None = None
    """The periodic event that it changes, 'save' or 'evaluate'. It counts in the comparison even if it is rare."""
    shares_cores: bool = False
    """True if it moves work between CPU cores. Where training itself runs on the CPU, that touches every phase."""
    requires: Callable[[Any, Run, Machine], str | None] = lambda value, run, machine: None
    """Returns what this machine lacks for a level, or None."""
    refuses: Callable[[Any, Run], str | None] = lambda value, run: None
    """Returns why a run of these settings can't have a level on any machine, or None."""
    unmet: Callable[[Run], str | None] = lambda run: None
    """Returns why trials can't meet what the factor acts on, or None. It is asked only if no bound refutes it."""
    accepts: Callable[[Any], str | None] | None = None
    """Returns what is wrong with a level's value as a user wrote it, or None. Where it is not said, a factor whose
    examples are true or false takes these, and any other one takes all values."""
    proposes: Callable[[Run, Machine], Sequence[Any]] | None = None
    """Returns the values that are worth trying for a run on a machine; its examples where nothing is said."""
    an_extra: bool = False
    """True if its proposals are tried although they are another training: they show what something costs."""
    undoes: bool = False
    """True if its proposals undo what costs time and is seldom needed. They are tried before what may bring most."""
    least: float = 0.0
    """The least gain that supports it, 1.0 for twice as fast, where that is more than the run's minimum effect: every
    run shows some of it."""
    elsewhere: bool = False
    """True if its proposals train the same on other hardware. They are tried before all others."""
    limits: str = ""
    """The changes that a level of class diagnostic shows the limit of, in words: "all changes of data loading"."""

    share_seen: str = ""
    """The fact of a run that tells which share of its time the change may take away; empty if none does."""

    undoes_on_cpu: Sequence[Any] = ()
    """The values that do so on a processor alone, which may lack what makes the others fast on a GPU."""
    startup_seconds: float = 0.0
    """The seconds, roughly, by which a trial with the change starts later."""

    def proposals(self, run: Run, machine: Machine) -> list[Any]:
        """Return the values that a run could have on this machine, and that train the same.

        Semantics is not proposed: another length or rank is another training, which nobody asked for. What shows the
        price of a run's own choice (`an_extra`) is tried all the same, since nobody may have asked for that price. A
        change that is another training for this run, and for most others is not, is tried and said to be so.
        """
        values = self.examples if self.proposes is None else self.proposes(run, machine)
        return [value for value in values if self._can_propose(value, run, machine)]

    def _can_propose(self, value: Any, run: Run, machine: Machine) -> bool:
        if value == self.current(run) or self.wrong_with(value) or self.refuses(value, run):
            return False
        costly = self.meaning is self.meaning_of(self.level(value, run)) is Meaning.SEMANTICS
        return (self.an_extra or not costly) and self.requires(value, run, machine) is None

    def wrong_with(self, value: Any) -> str | None:
        """Return what is wrong with a level's value as a user wrote it, or None."""
        if self.accepts is not None:
            return self.accepts(value)
        is_switch = self.examples and all(isinstance(one, bool) for one in self.examples)
        return f"expected true or false, found {describe(value)}" if is_switch and not isinstance(value, bool) else None

    def cause_at(self, level: Level, run: Run) -> str:
        """Return the cost that this level takes away from a run if it is faster."""
        return self.cause(self.current(run), level.value) if callable(self.cause) else self.cause

    def meaning_of(self, level: Level) -> Meaning:
        """Return the meaning of this level."""
        return level.meaning or self.meaning

    def touched(self, device: str) -> frozenset[str]:
        """Return the phases that this factor can touch on `device` ('cpu' or 'cuda')."""
        if device == "cpu":
            return ALL_PHASES if self.shares_cores else self.touches
        # the device runs the optimizer while the host fetches the next batch, so a shorter update means a longer wait
        behind = {"data", "host_to_device"} if "optimizer" in self.touches else set()
        return self.touches | behind


def show(value: Any) -> str:
    """Return a level's value as labels show it: `true`, not `True`."""
    if isinstance(value, list):
        return ",".join(map(show, value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def show_all(values: Mapping[str, Any]) -> str:
    """Return settings by the last part of their keys: `dataloader_num_workers=2, tokenize=once`."""
    return ", ".join(f"{key.rpartition('.')[2]}={show(value)}" for key, value in values.items())
