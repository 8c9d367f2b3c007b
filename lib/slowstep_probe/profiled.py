"""What is seen of profiled steps. Times are in seconds.

The profiler slows the steps that it looks at, so they are never judged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

VALUES_KNOWN, VALUES_COUNTED = 1, 2
"""The steps whose operators are looked at by their values: the first ones only show which values there are."""

ATTENTION, PRODUCT = "attention", "product"
"""What a program may write out by single operators though PyTorch has one for it."""


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
    where: str = ""
    """The line that calls modules of which none needs what another one makes; empty if no such line is known."""
    without_gradients: float = 0.0
    """The seconds of all its turns where gradients are switched off, over all profiled steps; long operators, too."""


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
class Unused:
    """Rows that a step computes, or goes over, at a line of the user's own, and from which nothing is learned."""

    where: str
    """The line and the function."""
    share: float
    """Their share of all rows there, 0 to 1."""
    seconds: dict[str, float]
    """The seconds that they take in each phase, over all profiled steps."""


@dataclass(frozen=True, kw_only=True)
class PassLoop:
    """A line of the user's own that calls a model again and again within one step."""

    phase: str
    where: str
    """The line and the function."""
    name: str
    """The class of the model."""
    calls: int
    """The most calls in a step."""
    rows: int
    """The most rows, samples mostly, that it was called with."""


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
    unused: dict[str, float] = field(default_factory=dict)
    """The share of the forward pass, 0 to 1, at each line of the user's own, of operators whose results nothing uses.
    Looking at each call makes all of them longer, so seconds would not compare with those of the profile."""
    only_read: dict[str, float] = field(default_factory=dict)
    """The same share of operators whose results Python reads back (`item`, `tolist`), and nothing else uses."""
    of_data: dict[str, float] = field(default_factory=dict)
    """The same share of operators whose results come of the batch and of frozen weights alone."""
    called: dict[str, dict[str, float]] = field(default_factory=dict)
    """The user's own lines of each phase that call some operator most often, with its calls a step; empty where the
    calls were not looked at one by one, as on a device."""
    ignored: list[Unused] = field(default_factory=list)
    """The lines with rows that a loss ignores: labels that do not count, a mask, an index that picks others."""
    tables: list[Unused] = field(default_factory=list)
    """The lines that look up tables with dense gradients, of which a step names some rows."""
    places: list[Place] = field(default_factory=list)
    """The lines of code that the time went to, over some steps without the profiler."""
    pass_loops: list[PassLoop] = field(default_factory=list)
    """The lines that call models again and again, in the same steps as the places."""
    beside: dict[str, float] = field(default_factory=dict)
    """The processor time of threads that run Python beside the training in these steps, as a share of the time, by the
    function that each runs: `writer.py in run`."""
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


def no_profile(why: str) -> ProfileRecord:
    """Return the record of a profile that failed."""
    nothing = {"steps": 0, "seconds": 0.0, "operators": [], "idle": 0.0, "gaps_per_step": 0.0, "gap_seconds": 0.0}
    return ProfileRecord(device="cpu", trace="", failed=why, **nothing)
