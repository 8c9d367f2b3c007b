"""The messages between a measurer and a trial, which go over a wire as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from slowstep_probe.changing.intervention import Intervention
from slowstep_probe.measured import Block, Memory, Status, Steps
from slowstep_probe.plain import from_plain, to_plain
from slowstep_probe.profiled import VALUES_COUNTED, VALUES_KNOWN, Place, ProfileRecord
from slowstep_probe.program import Program
from slowstep_probe.ranks.rank import Group

DEVICE_TAKEN = "busy or unavailable"
"""Part of CUDA's error where a device is in the mode "exclusive process", and another process has it."""

ROUNDING = 1e-6
"""The part of a sample that counts as rounding, since whole numbers of samples are computed from means."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """All that a trial process needs to begin."""

    program: Program
    intervention: Intervention | None = None
    """What is done to the program; None for one that makes its changes itself."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment variables that are set for the program."""
    group: Group | None = None
    """The ranks that train together; None for a program that starts no others."""
    launcher: str = ""
    """The way in which the program's ranks are started (`slowstep_probe.ranks.launchers`)."""
    processes: int = 0
    """The ranks that the program asks for, of which fewer may train; 0 for one that starts no others."""
    meeting: str = ""
    """The folder in which ranks on one node find each other."""
    freed_memory: str = "returned"
    """The fate of memory that a step frees (`slowstep_probe.heap`)."""
    on_device: bool = False
    """True if the program was seen to train on a device that runs CUDA."""
    started: float
    """The time when the measurer asked for the process, by `time.monotonic()`, which all processes share."""
    imports: float = 0.0
    """The seconds that the warm interpreter took for its imports. A program by itself spends them, too."""
    ready: float = 0.0
    """The time from which on the warm interpreter could fork trials. One that is asked for earlier waits."""


@dataclass(frozen=True, kw_only=True)
class TrainBlock:
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
    looks: bool = False
    """True if the stack is looked at meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A request for `steps` steps under torch.profiler, after `looks` steps in which the stack is looked at.

    Between them, one step shows how many events there are: of very many, fewer steps are profiled. The trace goes to
    the file `trace`. It is `returned` with the answer where that file is on another node.
    """

    steps: int
    trace: str
    looks: int
    returned: bool = False

    @property
    def after_looks(self) -> int:
        """The most steps that are trained after the `looks`.

        One is to count, one goes without a profiler, then come the profiled, and those whose values are looked at.
        """
        return 2 + self.steps + VALUES_KNOWN + VALUES_COUNTED


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
    """The answer to `TrainBlock`: a block, with the memory peaks since the start."""

    block: Block
    memory: Memory
    losses: list[float]
    """Losses of the first optimizer steps since the start."""
    trained: int
    """Steps trained since the block before, discarded steps included."""
    position: int
    """Samples trained on since the start, see `slowstep_probe.probe.tape.Tape.position`."""
    learning_rates: list[float] = field(default_factory=list)
    """Learning rates of the steps of `losses`, each relative to the one that was set."""
    steps: Steps = Steps()
    """Every steady step since the answer before. Those of the block come last."""
    queued: int = 0
    """Batches that loader workers have made and that lie ready."""
    collectives: dict[str, float] = field(default_factory=dict)
    """Seconds of the block in calls of collectives, by the phase in which they were called."""
    recompilations: int = 0
    """Graphs that torch.compile made since the start because no earlier one fitted; it remembers the last 64 graphs."""
    devices: list[str] = field(default_factory=list)
    """The UUIDs of the devices that are trained on."""


@dataclass(frozen=True, kw_only=True)
class PeriodicEventDone:
    """The answer to `PeriodicEvent`: the event took `seconds`, and wrote `bytes` or evaluated `samples`."""

    seconds: float
    bytes: int | None
    samples: int | None
    fixed: float = 0.0
    """The part of the seconds that does not grow with the samples."""
    places: list[Place] = field(default_factory=list)
    """The lines of code that the time went to, as shares of it, if the stack was looked at."""


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
    beyond_epoch: bool = False
    """True if the trial had let an epoch go on by then where the program's own ends."""

    @property
    def may_pass_in_own_epochs(self) -> bool:
        """True if it may train on where epochs end: what is sized by an epoch is full, or schedules go below 0."""
        return self.beyond_epoch and self.status in (Status.CRASHED, Status.LOSS_NOT_FINITE)

    @property
    def may_fit_alone(self) -> bool:
        """True if it lacked memory, or a device that takes one process at a time, which another trial may have held."""
        return self.status is Status.OUT_OF_MEMORY or DEVICE_TAKEN in self.reason


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """The answer to `Profile`."""

    record: ProfileRecord
    content: str = ""
    """The trace in base64, if it is returned."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer of a function that is no trial."""

    value: Any


MESSAGES = {
    kind.__name__: kind
    for kind in (
        TrainBlock,
        PeriodicEvent,
        Profile,
        Observe,
        Ready,
        BlockDone,
        PeriodicEventDone,
        Observed,
        Failed,
        Profiled,
        Answer,
    )
}


def encoded(message: Any) -> dict[str, Any]:
    """Return a message as plain data."""
    return {"message": type(message).__name__, **to_plain(message)}


def decoded(data: dict[str, Any]) -> Any:
    """Return the message that `encoded` made plain data of; ValueError if it is none."""
    kind = MESSAGES.get(data.pop("message", ""))
    if kind is None:
        raise ValueError(f"{data!r:.100} is no message")
    return from_plain(kind, data)
