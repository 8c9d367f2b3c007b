"""The records. Times in seconds, memory in bytes; `None` means "not measured", which is never 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

PHASES = ("data", "host_to_device", "forward", "backward", "optimizer", "log", "save", "evaluate", "other")
"""Where a step's time can go, in the order of a step. Together they are the whole wall time of a block."""


LARGEST = 1e12
"""Beyond any number of steps and of seconds, 30 thousand years; NaN is beyond it, too."""


class Status(StrEnum):
    """How a trial ended."""

    OK = "ok"
    OUT_OF_MEMORY = "out of memory"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"
    NOT_TESTABLE = "not testable here"
    LOSS_NOT_FINITE = "loss not finite"


@dataclass(frozen=True, kw_only=True)
class Work:
    """What was processed. Tokens are None for data that has no token ids.

    padded = all positions of the batches; useful = attention_mask.sum(); loss = labels that count (!= -100);
    cut = tokens of the examples that truncation removed.
    """

    samples: int = 0
    padded_tokens: int | None = None
    useful_tokens: int | None = None
    loss_tokens: int | None = None
    cut_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive optimizer steps of one trial, measured as a whole: the sampling unit of all statistics."""

    steps: int
    seconds: float
    phases: dict[str, float]
    """Seconds a phase; the sum is `seconds`."""
    step_seconds: list[float]
    work: Work
    amortised: dict[str, float] = field(default_factory=dict)
    """Seconds within `seconds` that stand for events too rare to meet: this block's share of each, measured apart."""
    disturbed: str | None = None
    """What took the machine away while it ran, if something visibly did and the pair could not be measured again."""

    def __post_init__(self) -> None:
        """Refuse figures that no block can have, with which nothing could be reckoned: ValueError."""
        seconds = (self.seconds, *self.phases.values(), *self.step_seconds, *self.amortised.values())
        if not (0 < self.steps < LARGEST and self.seconds > 0 and all(-LARGEST < s < LARGEST for s in seconds)):
            raise ValueError(f"a block of {self.steps!r:.20} steps and {self.seconds!r:.20} s can't be")


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Optimizer steps of one launch, timed one by one, in columns of one length n.

    They are steady: trained after the warm-up, with the loader's workers delivering evenly. Those of a block are among
    them, and those that were trained between two blocks so that both arms meet the same samples.
    """

    position: list[int] = field(default_factory=list)
    """Samples trained on since the launch when the step began. Trials draw the same order from the same seed, so steps
    at one position train on the same samples in every launch."""
    phases: dict[str, list[float]] = field(default_factory=dict)
    """Seconds a phase; one that took no time in any of the steps is left out."""

    def __post_init__(self) -> None:
        """Refuse columns of unlike length, and figures that no step can have: ValueError."""
        columns = self.phases.values()
        if any(len(column) != len(self.position) for column in columns):
            raise ValueError("steps whose columns differ in length can't be")
        if not all(-LARGEST < s < LARGEST for column in columns for s in column):
            raise ValueError("a step of such a length can't be")

    def __len__(self) -> int:
        return len(self.position)

    @property
    def seconds(self) -> list[float]:
        """The whole of each step."""
        return [sum(column[i] for column in self.phases.values()) for i in range(len(self))]

    def __add__(self, other: Steps) -> Steps:
        """Both, one after the other."""
        names = [p for p in PHASES if p in self.phases or p in other.phases]
        return Steps(
            position=self.position + other.position,
            phases={p: self._column(p) + other._column(p) for p in names},
        )

    def since(self, first: int) -> Steps:
        """Without the first so many."""
        return Steps(position=self.position[first:], phases={p: column[first:] for p, column in self.phases.items()})

    def _column(self, phase: str) -> list[float]:
        return self.phases.get(phase) or [0.0] * len(self)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Peaks in bytes: need (allocated), what the allocator took (reserved), the device as a whole, and the host."""

    allocated: int | None = None
    reserved: int | None = None
    device: int | None = None
    host: int | None = None
    limit: int | None = None

    @property
    def peak(self) -> int | None:
        """Of the memory that `limit` is about: the device's where there is one, else the host's."""
        return self.host if self.reserved is None else self.reserved


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """One child process that trained one arm."""

    arm: str
    status: Status
    reason: str = ""
    startup: dict[str, float] = field(default_factory=dict)
    """Seconds by part: imports (the fork server's, as a script of one's own would spend them), process, data, model,
    trainer, first step boundary, first step, warm-up."""
    wall: dict[str, float] = field(default_factory=dict)
    """Seconds of the trial's whole life: start-up and warm-up, measured blocks, discarded steps, waiting."""
    warmup_steps: int = 0
    settled: bool = True
    """Whether the step time had stopped falling when warm-up ended."""
    observed: dict[str, object] = field(default_factory=dict)
    """What the trial really ran with, read from the objects and not from the settings."""
    losses: list[float] = field(default_factory=list)
    """Of the first optimizer steps."""
    memory: Memory = Memory()
    steps: list[Steps] = field(default_factory=list)
    """Every steady step, by launch."""
    log: str = ""
    log_tail: str = ""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A baseline block and a treatment block, adjacent in time, in the recorded order."""

    first: Literal["baseline", "treatment"]
    baseline: Block
    treatment: Block
    launch: int = 0
    """Pairs of the same number share the launches of both arms, and whatever those bring for their whole life."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What something was measured with: the machine, its packages, the kit, and local files."""

    machine: dict[str, object] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    kit: str = ""
    files: list[str] = field(default_factory=list)
    """Name, size and time of change of each local file that the settings name."""

    @property
    def determinants(self) -> list[object]:
        """All of it that decides how fast something is."""
        machine = {name: value for name, value in self.machine.items() if name != "tools"}
        return [machine, self.versions, self.kit, self.files]


@dataclass(frozen=True, kw_only=True)
class ComparisonRecord:
    """Interleaved pairs of two arms, with both trials and the pairs that were measured again."""

    baseline: TrialRecord
    treatment: TrialRecord
    pairs: list[Pair]
    redone: list[str] = field(default_factory=list)
    arms: list[str] = field(default_factory=list)
    """Identities of the baseline and of the treatment: equal ones were trained alike."""
    by_turns: bool = False
    """Whether the arms were relaunched by turns because they did not fit in memory together."""
    seed: int = 0
    seconds: float = 0.0
    environment: Environment = Environment()
    date: str = ""


@dataclass(frozen=True, kw_only=True)
class ObservationRecord:
    """The baseline trained on by itself, to meet what comes too rarely for a few blocks."""

    arm: str
    """Identity of the arm."""
    trial: TrialRecord
    seconds: float = 0.0
    environment: Environment = Environment()


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator of PyTorch, or a kernel on the device, over all profiled steps; seconds of its own, without parts."""

    name: str
    calls: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Place:
    """A line of code and the share of the time, 0 to 1, in which the training stood there."""

    phase: str
    where: str
    """`train.py:88 in collate`."""
    own: bool
    """Whether it is code of the user's own, and not a library's."""
    share: float


@dataclass(frozen=True, kw_only=True)
class ProfileRecord:
    """Some steps under torch.profiler, in a trial that is never judged, since the profiler slows it."""

    device: Literal["cpu", "cuda"]
    steps: int
    seconds: float
    operators: list[Operator]
    idle: float
    """Share of the time, 0 to 1, in which the device runs no kernel; without a device, in which no operator runs."""
    gaps_per_step: float
    """Stretches of more than 10 us in which that is so."""
    gap_seconds: float
    """Seconds a step that they take."""
    trace: str
    """File beside records/, in traces/; https://ui.perfetto.dev shows it."""
    arm: str = ""
    """Identity of the arm."""
    by_phase: dict[str, list[Operator]] = field(default_factory=dict)
    """The largest operators of each phase."""
    pauses: dict[str, float] = field(default_factory=dict)
    """Seconds a phase in stretches of more than a millisecond in which no operator runs; empty for a device."""
    places: list[Place] = field(default_factory=list)
    """Where in the code the time went, over some steps without the profiler."""
    failed: str = ""
    """Why there is nothing in it; empty if it was profiled."""


@dataclass(frozen=True, kw_only=True)
class EventRecord:
    """What happens now and then in the real job, each measured on its own: seconds an occurrence, bytes written."""

    seconds: dict[str, list[float]]
    bytes: dict[str, int] = field(default_factory=dict)
    samples: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Events that could not be measured, with the reason."""
