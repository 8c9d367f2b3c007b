"""The measurer of a cluster: its verbs are answered by local measurers in jobs.

Comparisons of one baseline (`compare_together`) are spread over the nodes. All else is asked of one job, the main one,
so that the figures which are no ratios (seconds of steps and events, peaks) come from one node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from slowstep.factors import Arm
from slowstep.judgement.devices import Peak
from slowstep.measure.measurer import ComparisonRequest, OnPairs, OnPairsOf
from slowstep.measure.slurm.job_pool import JobPool
from slowstep.measure.slurm.jobs import NoNode
from slowstep.measure.slurm.spread import Spread, Task, in_groups
from slowstep.processes import signals
from slowstep.records import ComparisonRecord, Environment, EventRecord, ObservationRecord, ProfileRecord
from slowstep.settings import Settings
from slowstep.settings.schema import Budget
from slowstep.settings.slurm import Slurm
from slowstep.text.terminal import is_live, say, say_over


class SlurmMeasurer:
    """Measures on the nodes of a cluster. Use it as a context manager: leaving it cancels every job.

    `folder` is the investigation's, and nodes must see it. `known` is the environment of earlier records of such nodes;
    with it no node is needed to read them.
    """

    def __init__(
        self,
        slurm: Slurm,
        budget: Budget,
        folder: Path,
        known: Environment | None = None,
        say: Callable[[str], None] | None = None,
    ):
        self.slurm, self.budget, self.folder = slurm, budget, folder
        self.deadline = math.inf
        self._environment, self._say = known, say or _say
        self._jobs: JobPool | None = None
        self._before = (0.0, 0, 0.0)
        """Measured seconds, steps and waited seconds of the job pools that were closed."""

    def __enter__(self) -> SlurmMeasurer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel every job."""
        if self._jobs is None:
            return
        jobs, self._jobs = self._jobs, None
        self._before = self._totals(jobs)
        with signals.held():
            jobs.close()
        signals.unwatch(self)

    @property
    def jobs(self) -> JobPool:
        """The jobs, the first of them submitted when it is needed."""
        if self._jobs is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            with signals.held():
                self._jobs = JobPool(self.slurm, self.budget, self.folder, self._environment, self._say)
                signals.watch(self, self.close)
        return self._jobs

    def _totals(self, jobs: JobPool | None) -> tuple[float, int, float]:
        if jobs is None:
            return self._before
        seconds, steps, waited = self._before
        return seconds + jobs.spent.measured_seconds, steps + jobs.spent.steps, waited + jobs.waited

    @property
    def nodes(self) -> int:
        """The number of nodes on which comparisons may be measured at the same time."""
        return self.slurm.nodes

    @property
    def measured_seconds(self) -> float:
        """Seconds in measured blocks so far, on all nodes."""
        return self._totals(self._jobs)[0]

    @property
    def steps(self) -> int:
        """Optimizer steps trained so far, on all nodes."""
        return self._totals(self._jobs)[1]

    @property
    def waited_seconds(self) -> float:
        """Seconds so far in which something was asked and no job ran."""
        return self._totals(self._jobs)[2]

    def describe(self) -> Environment:
        """Return the nodes' machine and packages, as earlier records or the first node tell them."""
        if self._environment is None:
            self._environment = self._verb("describe")
            if self._environment is None:
                self.close()
                raise NoNode("measure.slurm: the job ended before it could say what its node is; try again")
        return self._environment

    def compare(self, request: ComparisonRequest, on_pairs: OnPairs = lambda pairs: None) -> ComparisonRecord | None:
        """Measure interleaved pairs of two arms on the main job's node. `on_pairs` gets the pairs so far."""
        found = list(self._spread([Task(open={0: request})], lambda number, pairs: on_pairs(pairs)))
        return found[0][1] if found else None

    def compare_together(
        self, requests: Sequence[ComparisonRequest], on_pairs: OnPairsOf
    ) -> Iterator[tuple[int, ComparisonRecord]]:
        """Measure comparisons of one baseline, a group of them on each node; yield each as it is decided."""
        yield from self._spread(in_groups(requests, self.slurm.nodes), on_pairs, wide=True)

    def observe(self, arm: Arm, steps: int, seconds: float) -> ObservationRecord:
        """Train `arm` by itself on the main job's node, and time each step."""
        return self._verb("observe", arm, steps, seconds)

    def events(self, arm: Arm) -> EventRecord:
        """Measure the seconds that each periodic event takes in `arm`."""
        return self._verb("events", arm)

    def profile(self, arm: Arm, trace: Path, start: int = 0) -> ProfileRecord:
        """Look at steps of `arm` after `start` samples with torch.profiler; the file `trace` holds its trace."""
        return self._verb("profile", arm, trace.resolve(), start)

    def peak(self, dtype: str) -> Peak | None:
        """Return what the device of the main job's node reaches; None if that can't be measured now."""
        return self._verb("peak", dtype)

    def model_sizes(self, settings: Settings) -> dict[str, int]:
        """Return the sizes of the model as a node finds them; empty if the model can't be had."""
        return self._verb("model_sizes", settings)

    def _verb(self, verb: str, *arguments: Any) -> Any:
        task = Task(verb=verb, arguments=arguments)
        return next(value for _, value in list(self._spread([task], lambda number, pairs: None)))

    def _spread(self, tasks: Sequence[Task], on_pairs: OnPairsOf, wide: bool = False) -> Iterator[tuple[int, Any]]:
        spread = Spread(self.jobs, tasks, self.deadline, on_pairs, wide)
        try:
            yield from spread.run()
        except NoNode:
            self.close()
            raise


def _say(line: str) -> None:
    """Write a line in place of the live one, which is written again with the next pair."""
    if is_live():
        say_over("", ended=False)
    say(line)
