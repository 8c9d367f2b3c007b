"""Simulated step times with known truth, like those of real machines as far as these are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import signal

STEPS = 20
"""The number of steps in a block."""


@dataclass(frozen=True, kw_only=True)
class Regime:
    """The step times of a machine: lognormal, correlated as AR(1), with a share of prolonged steps."""

    sd: float = 0.03
    correlation: float = 0.6
    spikes: float = 0.02
    """The share of steps with a spike, whose length is exponential, and one step on average."""
    drift: float = 0.0
    """The growth of the step time's logarithm in 60 steps."""
    heavy: float = 0.0
    """The share of steps that take thirty times as long."""
    stall: float = 0.0
    """The share by which every eighth step takes longer, in both arms."""
    launch: float = 0.0
    """Standard deviation of the logarithm of a launch's own speed."""

    def times(self, rng: np.random.Generator, runs: int, steps: int) -> np.ndarray:
        """Return step times, shape (runs, steps), in the order of the clock; the median is about 1."""
        shocks = rng.normal(0.0, self.sd * np.sqrt(1 - self.correlation**2), (runs, steps))
        shocks[:, 0] = rng.normal(0.0, self.sd, runs)
        logs = signal.lfilter([1.0], [1.0, -self.correlation], shocks, axis=1)
        times = np.exp(logs + self.drift / 60 * np.arange(steps))
        times *= 1 + (rng.random(times.shape) < self.spikes) * rng.exponential(1.0, times.shape)
        times[rng.random(times.shape) < self.heavy] *= 30
        if self.stall:
            phase = rng.integers(0, 8, (runs, 1))
            times *= np.where((np.arange(steps) + phase) % 8 == 7, 1 + self.stall, 1.0)
        return times

    def offsets(self, rng: np.random.Generator, runs: int, launches: int) -> np.ndarray:
        """Return the differences between the launches of two arms, as log-ratios, shape (runs, launches)."""
        return rng.normal(0.0, self.launch * np.sqrt(2), (runs, launches))


REGIMES = {
    "steady": Regime(),
    "correlated steps (AR 0.9)": Regime(correlation=0.9),
    "AR 0.9, drift 10 %": Regime(correlation=0.9, drift=0.10),
    "drift 5 %": Regime(drift=0.05),
    "spikes, sd 8 %": Regime(sd=0.08, spikes=0.05),
    "1 step in 500 takes 30 times as long": Regime(heavy=1 / 500),
    "1 step in 200 takes 30 times as long": Regime(heavy=1 / 200),
    "every 8th step stalls by 80 %": Regime(stall=0.8),
    "launches differ by 1 %": Regime(launch=0.01),
    "launches differ by 1 %, AR 0.9, drift 10 %": Regime(launch=0.01, correlation=0.9, drift=0.10),
    "quiet, launches differ by 1 %": Regime(sd=0.005, spikes=0.0, launch=0.01),
    "quiet": Regime(sd=0.01, spikes=0.0),
}


def pairs(
    regime: Regime, rng: np.random.Generator, runs: int, looks: Sequence[int], effect: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return log-ratios of interleaved pairs in random order, shape (runs, pairs), and offsets of launches.

    The treatment is faster by `effect` (0.1: 10 %). The offsets, shape (runs, looks), are what each launch adds to its
    pairs.
    """
    most = looks[-1]
    blocks = np.log(regime.times(rng, runs, most * 2 * STEPS).reshape(runs, most, 2, STEPS).sum(-1))
    first = rng.random((runs, most)) < 0.5
    difference = np.where(first, blocks[..., 0] - blocks[..., 1], blocks[..., 1] - blocks[..., 0])
    return difference + np.log1p(effect), regime.offsets(rng, runs, len(looks))
