"""What a session and a trial say to each other, over a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slowstep.records import Block, Memory, Status, Steps
from slowstep.settings import Settings

ROUNDING = 1e-6
"""Of a sample: what is left of whole numbers of samples that were reckoned from means."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What a trial process needs to begin."""

    settings: Settings
    folder: str
    cache: str
    """Folder of compiled kernels: empty for an arm's first launch, which shows what compiling costs."""
    started: float
    """`time.monotonic()`, which all processes share, when the session asked for the process."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Ask for a block of at least so many `steps` and `samples`; of a `period` of several steps, whole ones.

    It begins after at least `discard` steps that don't count, between the first two steps after which the trial has
    trained on `start` samples. `drain` uses up first what loader workers have made so far.
    """

    steps: int = 1
    samples: float = 0.0
    period: int = 1
    discard: int = 0
    start: float = 0.0
    drain: bool = False


@dataclass(frozen=True, kw_only=True)
class PeriodicEvent:
    """Ask for a periodic event, 'save' or 'evaluate', to happen once now."""

    event: str


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Ask for `steps` under torch.profiler, whose trace goes to the file of that path, after `looks` steps in which the
    stack is looked at."""

    steps: int
    trace: str
    looks: int


@dataclass(frozen=True, kw_only=True)
class Observe:
    """Ask what is in effect."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """The trial stands before its next step."""

    startup: dict[str, float]
    device: str
    periodic_events: list[str]


@dataclass(frozen=True, kw_only=True)
class BlockDone:
    """A block, with the memory peaks since the start."""

    block: Block
    memory: Memory
    losses: list[float]
    """Of the first optimizer steps since the start."""
    trained: int
    """Steps since the block before, those that don't count included."""
    position: int
    """Samples trained on since the start; a step counts as one where its batch doesn't tell."""
    steps: Steps = Steps()
    """Every steady step since the answer before, those of the block last."""
    recompilations: int = 0
    """By torch.compile since the start, for what no graph before allowed; it remembers the last 64 graphs."""


@dataclass(frozen=True, kw_only=True)
class PeriodicEventDone:
    """The event took `seconds`; it wrote so many bytes, or evaluated so many samples."""

    seconds: float
    bytes: int | None
    samples: int | None


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What is in effect."""

    facts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The trial's last word."""

    status: Status
    reason: str
    memory: Memory = Memory()
