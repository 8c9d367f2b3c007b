"""Machines whose steps are simulated or were recorded: what two ways of measuring meet when they take the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import signal

STEP = 0.1
"""Seconds of a step, on all machines."""

MOOD_SECONDS = 30.0
"""Seconds over which a machine's mood is forgotten (to 1 / e): what differs from one block to the next."""

HORIZON = 200_000
"""The steps of a simulated machine's time, after which it begins anew: five and a half hours."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Noise around a step's time, as standard deviations of its natural logarithm."""

    mood: float
    """What changes slowly, and no longer block averages out."""
    step: float
    """What differs from step to step."""
    launch: float
    """What a launch keeps for its life."""

    def trace(self, rng: np.random.Generator) -> np.ndarray:
        """Return the logarithms of the times of consecutive steps over their ordinary time, shape (HORIZON,)."""
        keep = np.exp(-STEP / MOOD_SECONDS)
        shocks = rng.normal(0.0, self.mood * np.sqrt(1 - keep**2), HORIZON)
        shocks[0] = rng.normal(0.0, self.mood)
        mood = signal.lfilter([1.0], [1.0, -keep], shocks)
        return mood + rng.normal(0.0, self.step, HORIZON)


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A machine whose steps were recorded; what its launches differ by is assumed."""

    steps: Sequence[float]
    """The seconds of consecutive steps that are alike."""
    launch: float

    def trace(self, rng: np.random.Generator) -> np.ndarray:
        """Return the logarithms of the recorded steps, from a moment drawn by chance."""
        logs = np.log(np.asarray(self.steps) / np.median(self.steps))
        return np.roll(logs, -int(rng.integers(len(logs))))


class Clock:
    """Goes through a machine's time: whatever is measured, later steps meet the machine as it is later."""

    def __init__(self, machine: Machine | Recorded, rng: np.random.Generator):
        self.machine, self.rng = machine, rng
        self._trace = machine.trace(rng)
        self._now = 0
        self.seconds = 0.0
        """The seconds that have passed."""

    def wait(self, seconds: float) -> None:
        """Let seconds pass in which nothing is measured."""
        self._now += round(seconds / STEP)
        self.seconds += seconds

    def launch(self, seconds: float) -> float:
        """Let a launch take its seconds, and return what it keeps for its life."""
        self.wait(seconds)
        return float(self.rng.normal(0.0, self.machine.launch))

    def steps(self, count: int, pace: float) -> np.ndarray:
        """Return the seconds of so many steps, shape (count,), of an arm whose `pace` is 1 for the run as it is."""
        taken = STEP * pace * np.exp(np.take(self._trace, np.arange(self._now, self._now + count), mode="wrap"))
        self._now += count
        self.seconds += float(taken.sum())
        return taken
