"""The messages between a measurer and a trial, which go over a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slowstep.records import Block, Memory, Status, Steps
from slowstep.settings import Settings

ROUNDING = 1e-6
"""The part of a sample that counts as rounding, since whole numbers of samples are computed from means."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """All that a trial process needs to begin."""

    settings: Settings
    folder: str
    cache: str
    """The folder of compiled kernels. It is empty at an arm's first launch, which shows what compiling costs."""
    started: float
    """The time when the measurer asked for the process, by `time.monotonic()`, which all processes share."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A request for a block of at least `steps` steps and `samples` samples, in whole periods of `period` steps.

    At least `discard` steps are trained first and don't count. The block then begins at the first step boundary at
    which the trial has trained on `start` samples. With `drain`, batches that loader workers have made are used up
    before that.
    """

    steps: int = 1
    samples: float = 0.0
    period: int = 1
    discard: int = 0
    start: float = 0.0
    drain: bool = False


@dataclass(frozen=True, kw_only=True)
class PeriodicEvent:
    """A request that a periodic event, 'save' or 'evaluate', happens once now."""

    event: str


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A request for `steps` steps under torch.profiler, after `looks` steps in which the stack is looked at.

    The trace goes to the file `trace`.
    """

    steps: int
    trace: str
    looks: int


@dataclass(frozen=True, kw_only=True)
class Observe:
    """A request for the facts that are in effect."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """The first message of a trial, which stands before its first step. `startup` holds seconds by part."""

    startup: dict[str, float]
    device: str
    periodic_events: list[str]


@dataclass(frozen=True, kw_only=True)
class BlockDone:
    """The answer to `Run`: a block, with the memory peaks since the start."""

    block: Block
    memory: Memory
    losses: list[float]
    """Losses of the first optimizer steps since the start."""
    trained: int
    """Steps trained since the block before, discarded steps included."""
    position: int
    """Samples trained on since the start. A step whose batch doesn't tell its samples counts as one."""
    steps: Steps = Steps()
    """Every steady step since the answer before. Those of the block come last."""
    recompilations: int = 0
    """Graphs that torch.compile made since the start because no earlier one fitted; it remembers the last 64 graphs."""


@dataclass(frozen=True, kw_only=True)
class PeriodicEventDone:
    """The answer to `PeriodicEvent`: the event took `seconds`, and wrote `bytes` or evaluated `samples`."""

    seconds: float
    bytes: int | None
    samples: int | None


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The answer to `Observe`: facts by name."""

    facts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The last message of a trial that failed."""

    status: Status
    reason: str
    memory: Memory = Memory()
