"""The records. Times are in seconds and memory in bytes. `None` means "not measured", which is never 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slowstep_probe.measured import Block, Memory, Status, Steps
from slowstep_probe.profiled import Place


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """The record of one child process that trained one arm."""

    arm: str
    status: Status
    reason: str = ""
    startup: dict[str, float] = field(default_factory=dict)
    """Seconds by part: imports (the warm interpreter's, as a script of one's own would spend them), process, data,
    model, trainer, first step boundary, first step, warm-up."""
    wall: dict[str, float] = field(default_factory=dict)
    """Seconds of the trial's whole life: start-up and warm-up, measured blocks, discarded steps, waiting."""
    first_wait: float | None = None
    """Seconds, at the most, until the first batch was there, the start of loader workers included; None if unknown."""
    warmup_steps: int = 0
    settled: bool = True
    """True if the step time had stopped falling when warm-up ended."""
    observed: dict[str, object] = field(default_factory=dict)
    """Facts about what the trial really ran with, read from its objects and not from the settings."""
    losses: list[float] = field(default_factory=list)
    """Losses of the first optimizer steps."""
    learning_rates: list[float] = field(default_factory=list)
    """Learning rates of these steps, each relative to the one that was set; empty if they are not known."""
    memory: Memory = Memory()
    steps: list[Steps] = field(default_factory=list)
    """Every steady step, by launch."""
    log: str = ""
    log_tail: str = ""

    @property
    def failure(self) -> str:
        """Return how the trial failed and why, in words; an empty text if it did not."""
        return "" if self.status is Status.OK else f"{self.status}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A baseline block and a treatment block, adjacent in time, in the recorded order."""

    first: Literal["baseline", "treatment"]
    baseline: Block
    treatment: Block
    launch: int = 0
    """The number of the launch. Pairs with the same number share the launches of both arms, and so their offsets."""

    @property
    def blocks(self) -> tuple[Block, Block]:
        """Return both blocks, the baseline's first."""
        return self.baseline, self.treatment


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node of a run on several: its host, and what it trains with."""

    host: str
    machine: dict[str, object] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    processes: int = 0
    """The ranks that the command starts there."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The environment of a measurement: the machine, its packages, the version of the kit, and local files."""

    machine: dict[str, object] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    kit: str = ""
    files: list[str] = field(default_factory=list)
    """Name, size and time of change of each local file that the settings name."""
    nodes: list[Node] = field(default_factory=list)
    """All nodes, in the order of their numbers; empty for one host."""

    @property
    def determinants(self) -> list[object]:
        """The parts that decide how fast a run is."""
        here = [deciding(self.machine), self.versions, self.kit, self.files]
        return here + [[deciding(node.machine), node.versions] for node in self.nodes]


def deciding(machine: Mapping[str, object]) -> dict[str, object]:
    """Return what decides of a machine how fast a run is.

    Memory counts in GiB: one machine has some bytes more or less each time it is started.
    """
    told = {name: value for name, value in machine.items() if name != "tools"}
    return told | {name: in_gib(told[name]) for name in ("memory", "gpu_memory") if name in told}


def in_gib(size: object) -> object:
    """Return a size of memory in whole GiB, in words; anything else as it is."""
    return f"{size / 2**30:.0f} GiB" if isinstance(size, int) and size > 2**30 else size


@dataclass(frozen=True, kw_only=True)
class ComparisonRecord:
    """The record of a comparison: interleaved pairs of two arms, both trials, and the pairs measured again."""

    baseline: TrialRecord
    treatment: TrialRecord
    pairs: list[Pair]
    redone: list[str] = field(default_factory=list)
    arms: list[str] = field(default_factory=list)
    """Identities of the baseline and of the treatment. Arms with equal identities were trained alike."""
    by_turns: bool = False
    """True if the arms were relaunched by turns because they did not fit in memory together."""
    seed: int = 0
    seconds: float = 0.0
    environment: Environment = Environment()
    date: str = ""
    node: str = ""
    """The node of a cluster that measured both arms; empty where the kit measured on the machine that it ran on."""
    cut_within: float | None = None
    """The minutes (`budget.minutes`) whose end left it undecided, so that more of them would have told more."""

    @property
    def blocks(self) -> list[Block]:
        """Return the blocks of both arms, pair by pair."""
        return [block for pair in self.pairs for block in pair.blocks]

    @property
    def steps(self) -> list[Steps]:
        """Return the steady steps of both arms, launch by launch, those of the baseline first."""
        return [*self.baseline.steps, *self.treatment.steps]


@dataclass(frozen=True, kw_only=True)
class ObservationRecord:
    """The record of the baseline when it trained on by itself, to meet what comes too rarely for a few blocks."""

    arm: str
    """Identity of the arm."""
    trial: TrialRecord
    seconds: float = 0.0
    environment: Environment = Environment()
    node: str = ""
    cut_within: float | None = None
    """The minutes (`budget.minutes`) whose end cut it short."""


@dataclass(frozen=True, kw_only=True)
class EventRecord:
    """The record of the real job's periodic events, by name, each measured on its own."""

    seconds: dict[str, list[float]]
    """Seconds of each occurrence."""
    bytes: dict[str, int] = field(default_factory=dict)
    """Bytes that an occurrence writes."""
    samples: dict[str, int] = field(default_factory=dict)
    """Samples that an occurrence evaluates."""
    fixed: dict[str, list[float]] = field(default_factory=dict)
    """The part of the seconds of each occurrence that does not grow with the samples, where that is known."""
    places: dict[str, list[Place]] = field(default_factory=dict)
    """The lines of code that the time of the first occurrence went to, as shares of it, 0 to 1."""
    failed: dict[str, str] = field(default_factory=dict)
    """Events that could not be measured, with the reason."""
    cut_within: float | None = None
    """The minutes (`budget.minutes`) whose end left events measured fewer times, or not at all."""
    node: str = ""
