"""What is measured inside a trial. Times are in seconds and memory in bytes. `None` means "not measured", never 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

WHY_NOT = "why_not_"
"""The beginning of the name of the reason why a fact of a trial is not what was asked for; the fact's name follows."""

PHASES = (
    "data",
    "host_to_device",
    "forward",
    "backward",
    "communication",
    "optimizer",
    "log",
    "save",
    "evaluate",
    "other",
)
"""The phases that a step's time can go to, in the order of a step. Together they are the wall time of a block."""

TRAINS = ("forward", "backward", "optimizer")
"""The phases that train."""

WHERE_RANKS_WAIT = frozenset({"backward", "communication"})
"""The phases in which ranks wait for each other: gradients are exchanged in the backward pass. Collectives that the
code calls in another phase make that one of them, too."""

OWN_EXCHANGE = "own"
"""The exchange of gradients by a function of the program's own (`register_comm_hook`), which may do anything."""

LARGEST = 1e12
"""A limit that no number of steps or of seconds reaches: it is 30 thousand years. NaN is refused by it, too."""

VALUES_KNOWN, VALUES_COUNTED = 1, 2
"""The steps whose operators are looked at by their values: the first ones only show which values there are."""

ATTENTION, PRODUCT = "attention", "product"
"""What a program may write out by single operators though PyTorch has one for it."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work that was processed. Tokens are None for data that has no token ids.

    padded = all positions of the batches; useful = attention_mask.sum(), or all positions where there is no mask and
    rows are full; loss = labels that count (!= -100); cut = tokens of the examples that truncation removed; doubtful =
    positions in rows that may be padded, where no mask says it. If these are many, useful tokens are None. Before a
    block has ended, counts may be tensors on a device, and `doubtful_tokens` a function that counts them.
    """

    samples: int = 0
    padded_tokens: int | None = None
    useful_tokens: int | None = None
    loss_tokens: int | None = None
    cut_tokens: int | None = None
    doubtful_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class OfRank:
    """A block as one of several ranks saw it."""

    seconds: float
    phases: dict[str, float]
    """Seconds of each phase that took any."""
    collectives: dict[str, float] = field(default_factory=dict)
    """Seconds in calls of collectives, by the phase in which they were called."""
    samples: int = 0
    memory: int | None = None
    """The most memory that the rank held, in bytes: on its device, or in its host where it has none."""


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """What the device's driver told while a block was measured, the discarded steps before it included.

    None means that the driver does not tell it.
    """

    watts: float | None = None
    """The mean power of the device, or of those of all ranks. Times the block's seconds it is energy in joules."""
    sm_mhz: float | None = None
    """The median clock of the device's processors, of several devices the slowest one's."""
    celsius: float | None = None
    """The highest temperature."""
    throttled: list[str] = field(default_factory=list)
    """The reasons for which the clock was held down at some moment, the ordinary limit of power among them."""
    others: int | None = None
    """Processes on the device that do not belong to the trials; None where they can't be told from the trials."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive optimizer steps of one trial, measured as a whole: the sampling unit of all statistics."""

    steps: int
    seconds: float
    phases: dict[str, float]
    """Seconds of each phase; their sum is `seconds`."""
    step_seconds: list[float]
    work: Work
    amortised: dict[str, float] = field(default_factory=dict)
    """Seconds within `seconds` that stand for periodic events: the block's share of each, measured beside the block."""
    interrupted: str | None = None
    """The interruption of the block, in words: other processes, or a device whose clock was held down. None if nothing
    did, or if it was measured again."""
    telemetry: Telemetry | None = None
    """What the device's driver told meanwhile; None without a device, or where it tells nothing."""
    ranks: list[OfRank] = field(default_factory=list)
    """The block as each of several ranks saw it; empty where one process trains."""
    quota_periods: int = 0
    """The periods in which a quota of CPU time was counted meanwhile; 0 without one. Of several quotas, and of those of
    several nodes, it is the one that was used up most often."""
    quota_used_up: int = 0
    """The periods in which the quota was used up. The kernel then stops the processes until the next period begins."""

    def __post_init__(self) -> None:
        """Refuse figures that no block can have and that nothing could be computed from: ValueError."""
        seconds = (self.seconds, *self.phases.values(), *self.step_seconds, *self.amortised.values())
        if not (0 < self.steps < LARGEST and self.seconds > 0 and all(-LARGEST < s < LARGEST for s in seconds)):
            raise ValueError(f"a block of {self.steps!r:.20} steps and {self.seconds!r:.20} s can't be")


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Optimizer steps of one launch, timed one by one, in columns of one length n.

    They are steady: trained after the warm-up, while the loader's workers deliver evenly. They include the steps of
    blocks, and the steps trained between two blocks so that both arms meet the same samples.
    """

    position: list[int] = field(default_factory=list)
    """The number of samples that the launch had trained on when the step began. Trials draw the same order from the
    same seed, so steps at one position train on the same samples in every launch."""
    phases: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each phase, by step. A phase that took no time in any of the steps is left out."""
    fetched: list[int] = field(default_factory=list)
    """Bytes, by step, that the launch's processes had the kernel fetch from storage, as they were not in memory: the
    mean of the steps that were asked for at once. Empty where that is not known."""

    def __post_init__(self) -> None:
        """Refuse columns of unlike length, and figures that no step can have: ValueError."""
        columns = self.phases.values()
        whole = [*columns, self.fetched] if self.fetched else columns
        if any(len(column) != len(self.position) for column in whole):
            raise ValueError("steps whose columns differ in length can't be")
        if not all(-LARGEST < s < LARGEST for column in columns for s in column):
            raise ValueError("a step of such a length can't be")

    def __len__(self) -> int:
        return len(self.position)

    @property
    def seconds(self) -> list[float]:
        """Return the seconds of each step, all phases together."""
        return [sum(column[i] for column in self.phases.values()) for i in range(len(self))]

    def __add__(self, other: Steps) -> Steps:
        """Return the steps of both, one after the other."""
        names = [p for p in PHASES if p in self.phases or p in other.phases]
        return Steps(
            position=self.position + other.position,
            phases={p: self._column(p) + other._column(p) for p in names},
            fetched=self.fetched + other.fetched if self._tells_fetched and other._tells_fetched else [],
        )

    def since(self, first: int) -> Steps:
        """Return the steps without the first `first` of them."""
        return Steps(
            position=self.position[first:],
            phases={p: column[first:] for p, column in self.phases.items()},
            fetched=self.fetched[first:],
        )

    @property
    def _tells_fetched(self) -> bool:
        """True if nothing is missing of what was fetched; no steps fetch nothing."""
        return len(self.fetched) == len(self)

    def _column(self, phase: str) -> list[float]:
        return self.phases.get(phase) or [0.0] * len(self)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Peaks in bytes, and the limit of one of them.

    allocated = the need of training; reserved = what the allocator took; device = the device as a whole, with what
    other processes hold there; host = the host; limit = the memory there is for `peak`. `retries` counts how often the
    allocator found no memory, gave back what it kept, and tried again, which makes a step slow long before it fails.
    """

    allocated: int | None = None
    reserved: int | None = None
    device: int | None = None
    host: int | None = None
    limit: int | None = None
    retries: int | None = None

    @property
    def peak(self) -> int | None:
        """Return the peak of the memory that `limit` is about: the device's, or the host's where there is no device."""
        return self.host if self.reserved is None else self.reserved


class Status(str, Enum):  # StrEnum is not in Python 3.10
    """The ways in which a trial can end."""

    OK = "ok"
    OUT_OF_MEMORY = "out of memory"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"
    NOT_TESTABLE = "not testable here"
    LOSS_NOT_FINITE = "loss not finite"
    ENDED = "training ended"

    __str__ = str.__str__
    __format__ = str.__format__


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator of PyTorch, or a kernel on the device. `seconds` is its own time over all profiled steps."""

    name: str
    calls: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Operators that Python calls one after the other: one of them, or a module, again and again."""

    name: str
    """The operator that is called most often, or the module's class."""
    calls: int
    """Its calls over all profiled steps."""
    seconds: float
    """Python's time between them and that of their calls, over all profiled steps; without what long operators and a
    device compute meanwhile."""
    of: str = ""
    """The phase of the loop whose backward pass this is; empty for a loop itself."""
    products: float = 0.0
    """The seconds of long products with weights among its calls, as far as their FLOPs are known, over all profiled
    steps; 0 with a device."""
    flops: float = 0.0
    """The floating-point operations of these products."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A line of code and the share of the time, 0 to 1, in which the training stood there."""

    phase: str
    where: str
    """The line and the function: `train.py:88 in collate`."""
    own: bool
    """True if it is the user's own code and not a library's."""
    share: float
    inside: str = ""
    """The library's function in which most of that time is spent, where a line calls a library that trains by itself:
    `PIL/ImageFile.py in load`."""
    within: str = ""
    """The outermost of the user's functions on the stack that trains nothing, `train.py in update`, or the one that is
    most often. It is empty where all of them train, and where the loss is made."""
    together: float = 0.0
    """The share of the time, 0 to 1, in which the training stood at lines of that function in this phase. A line that
    several functions run counts for the one that runs it most."""
    hooked: bool = False
    """True if a hook of the user's own on an optimizer runs it, within the step and beside the update. `within` is the
    hook then."""


@dataclass(frozen=True, kw_only=True)
class ProfileRecord:
    """The record of some steps under torch.profiler, which slows them, so they are never judged."""

    device: Literal["cpu", "cuda"]
    steps: int
    seconds: float
    operators: list[Operator]
    idle: float
    """Share of the time, 0 to 1, in which the device runs no kernel; without a device, in which no operator runs."""
    gaps_per_step: float
    """The number of such idle stretches of more than 10 us, a step."""
    gap_seconds: float
    """Seconds of these stretches, a step."""
    trace: str
    """The name of the trace file in traces/, beside records/; https://ui.perfetto.dev shows it."""
    arm: str = ""
    """Identity of the arm."""
    by_phase: dict[str, list[Operator]] = field(default_factory=dict)
    """The largest operators of each phase."""
    pauses: dict[str, float] = field(default_factory=dict)
    """Seconds of each phase in stretches of more than a millisecond in which no operator runs; empty for a device."""
    loops: dict[str, Loop] = field(default_factory=dict)
    """The loops in Python of each phase, told as one."""
    earlier: float = 0.0
    """Seconds in which backward passes go through what earlier steps computed."""
    written_out: dict[str, dict[str, float]] = field(default_factory=dict)
    """Seconds of each phase in what the program writes out (`ATTENTION`, `PRODUCT`), and going back through that."""
    losses: float = 0.0
    """Seconds between the phases in operators that backward passes go back through, and that compute for a while."""
    moves: dict[str, list[Operator]] = field(default_factory=dict)
    """The largest operators of each phase that only move numbers, each with what called it: `aten::copy_ in
    aten::matmul`."""
    again: dict[str, float] = field(default_factory=dict)
    """Seconds of the forward pass, at each line of the user's own, in operators that compute the same again."""
    again_backward: dict[str, float] = field(default_factory=dict)
    """Seconds of the backward pass, in going back through that a second time, at the line that it goes back through,
    and in taking the same gradient again."""
    places: list[Place] = field(default_factory=list)
    """The lines of code that the time went to, over some steps without the profiler."""
    start: int = 0
    """The samples after which steps were asked for, where later ones were; 0 where any would do."""
    trained: int = 0
    """The samples that its trial had trained on before."""
    took: float = 0.0
    """The seconds from the request to the record: the steps, and reading what was noted, which may take far longer."""
    failed: str = ""
    """The reason why the record holds no operator; empty if the profile succeeded."""
    node: str = ""
    """The node of a cluster that measured it; empty for the machine that the kit ran on."""


def no_profile(why: str, places: Sequence[Place] = ()) -> ProfileRecord:
    """Return the record of a profile that failed, with the lines that were seen before."""
    nothing = {"steps": 0, "seconds": 0.0, "operators": [], "idle": 0.0, "gaps_per_step": 0.0, "gap_seconds": 0.0}
    return ProfileRecord(device="cpu", trace="", failed=why, places=list(places), **nothing)
