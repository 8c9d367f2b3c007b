"""The interface of a measurer: few verbs, asked with data and answered with records.

The caller knows nothing of processes, logs or process numbers. So a comparison may as well be measured on another
machine, or by a simulation whose truth is known, as in the tests. A trial that fails is part of a record and never an
exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from slowstep.factors import Arm
from slowstep.judgement.devices import Peak
from slowstep.judgement.stopping import StopRule
from slowstep.records import ComparisonRecord, Environment, EventRecord, ObservationRecord, Pair, ProfileRecord
from slowstep.settings import Settings

OnPairs = Callable[[Sequence[Pair]], None]
"""A callback that gets the pairs so far, before each new one."""

OnPairsOf = Callable[[int, Sequence[Pair]], None]
"""A callback for several comparisons: it also gets the number of the comparison among the requests."""

OVERTIME = 0.1
"""The part of all minutes (`budget.minutes`) by which what has begun may overrun them."""

LOOKED_AT_SECONDS = 4.0
"""The seconds of training in which a profiled trial's stack is looked at."""

NO_TIME = "no time was left for it within the minutes (budget.minutes)"
"""The reason of what could not be measured in time."""


@dataclass(frozen=True, kw_only=True)
class ComparisonRequest:
    """Two arms to compare, and when to stop."""

    baseline: Arm
    treatment: Arm
    stop: StopRule
    twin: bool = False
    """True if the treatment is the baseline once more, in processes of its own: an A/A comparison."""
    purpose: str = ""
    """The purpose of the comparison. Another purpose gives another order of the pairs, and a record of its own."""
    periodic_events: frozenset[str] = frozenset()
    """The periodic events ('save', 'evaluate') of which each block bears its share, however rare they are."""
    least_samples: float = 0.0
    """The least samples of each block, as far as that does not take too long."""
    block_seconds: float | None = None
    """The least seconds of each block, where the budget does not say."""
    sample_seconds: float = 0.0
    """The mean seconds of a sample of the baseline as far as they are known, else 0. A launch that is warm knows a few
    steps alone, which may all be short ones."""
    earlier: ComparisonRecord | None = None
    """What the end of fewer minutes left undecided of this comparison, which goes on from there."""


class Measurer(Protocol):
    """An object that can train arms and time them. Close it to end whatever it still runs."""

    deadline: float
    """The time, by `time.monotonic()`, after which no more is measured than an answer needs.

    A comparison then takes no more pairs than make an interval, nothing is observed, a periodic event happens once, and
    a profile is of few steps. Nothing but the comparison of the baseline with itself is waited for much longer."""

    @property
    def nodes(self) -> int:
        """The number of machines on which comparisons may be measured at the same time."""

    @property
    def waited_seconds(self) -> float:
        """Seconds so far in which it could not measure, since no machine was free. They count for no budget."""

    @property
    def measured_seconds(self) -> float:
        """Seconds in measured blocks so far."""

    @property
    def steps(self) -> int:
        """Optimizer steps trained so far, warm-up and discarded steps included."""

    def describe(self) -> Environment:
        """Return the machine and the packages that it measures with."""

    def compare(self, request: ComparisonRequest, on_pairs: OnPairs = lambda pairs: None) -> ComparisonRecord | None:
        """Measure interleaved pairs of two arms until the stop rule is met. `on_pairs` gets the pairs so far.

        None if the minutes are over by `OVERTIME` before there are pairs enough for an interval.
        """

    def compare_together(
        self, requests: Sequence[ComparisonRequest], on_pairs: OnPairsOf
    ) -> Iterator[tuple[int, ComparisonRecord]]:
        """Measure several comparisons of one baseline, and yield the place and the record of each as it is decided.

        Those for which there is no time left have no record.
        """

    def observe(self, arm: Arm, steps: int, seconds: float) -> ObservationRecord:
        """Train `arm` by itself for so many steps, or for so many seconds at most, and time each step."""

    def events(self, arm: Arm) -> EventRecord:
        """Measure the seconds that each periodic event takes in `arm`."""

    def profile(self, arm: Arm, trace: Path, start: int = 0) -> ProfileRecord:
        """Look at some steps of `arm` with torch.profiler; its trace is written to the file `trace`.

        They come after it has trained on `start` samples, if there is time for that.
        """

    def peak(self, dtype: str) -> Peak | None:
        """Return what the device reaches in products of matrices of `dtype`; None if that can't be measured now."""

    def model_sizes(self, settings: Settings) -> dict[str, int]:
        """Return the sizes of the model as it would be trained; empty if the model can't be had."""

    def close(self) -> None:
        """End every trial."""
