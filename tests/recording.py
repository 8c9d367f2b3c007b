"""Puts a probe around any training and takes one block of it; and a clock that only the test moves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from slowstep.records import Block
from slowstep_probe.probe.clock import Clock
from slowstep_probe.probe.probe import Probe


class HandClock:
    """Time passes when it is told to, so what a phase took is known exactly and no busy machine changes it."""

    now = 0.0

    def pass_second(self, *_: object, **__: object) -> None:
        """One second goes by; takes any arguments, to serve as a hook."""
        self.now += 1.0

    def mark(self) -> float:
        return self.now

    def begin(self) -> float:
        """Nothing is under way."""
        return self.mark()

    def synchronize(self) -> None:
        """Nothing is under way."""

    def ended(self, mark: object) -> object:
        """Whatever was marked last is the end."""
        return mark

    def follow(self) -> None:
        """There is one place to compute at."""

    def on(self, device: object) -> HandClock:
        """It is the same everywhere."""
        return self

    def gaps(self, marks: list[float]) -> list[float]:
        return [b - a for a, b in pairwise(marks)]


@dataclass(frozen=True)
class Recorded:
    """A block of a training, its losses, and the seconds it took as seen from outside."""

    block: Block
    losses: list[float]
    outside: float


class _Enough(BaseException):
    """Leaves a training that has no end, as a trial does."""


def record(train: Callable[[], None], steps: int, clock: Clock | None = None) -> Recorded:
    """The first `steps` optimizer steps of `train`, which knows nothing of the probe."""
    boundaries, began, taken = 0, 0.0, []

    def at_step_boundary() -> None:
        nonlocal boundaries, began
        if boundaries == 0:
            began = time.perf_counter()
            probe.open()
        if boundaries == steps:
            block, _ = probe.close()
            taken.append(Recorded(block, probe.steps.losses.first, time.perf_counter() - began))
            raise _Enough
        boundaries += 1

    probe = Probe(clock, at_step_boundary)
    try:
        with probe.attached():
            train()
    except _Enough:
        pass
    finally:
        probe.workers.belong_to(None)  # freed by the garbage collector, each worker takes 5 s to end
    return taken[0]
