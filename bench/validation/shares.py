"""The intervals of shares, and refutations by a bound, on simulated waits whose truth is known.

A step computes for 0.1 s, give or take, and waits before it. A wait may be even, scattered, heavy-tailed, or none but
in one of so many steps. The intervals are held against the true share. A bound that refutes a wait which is worth the
minimum effect is a false refutation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slowstep.judgement.shares import share
from slowstep.judgement.throughput import speed_up
from slowstep.judgement.timeline import steps_to_see

RUNS = 1000
COMPUTE = 0.1
"""Seconds of a step without its wait, on the mean."""

MINIMUM = 0.05
STEPS = (60, 300, steps_to_see(500))
"""Distinct steps observed: those of an A/A comparison, and so on to what a bound needs."""

RARE = (50, 100, 200, 500)
"""A stall comes in one of so many steps."""

Draw = Callable[[np.random.Generator, int, float], np.ndarray]
"""Waits of n steps whose mean is given, in seconds."""

GAINS = (0.03, 0.06, 0.25)
"""What a run without the wait would gain."""


def _lognormal(sigma: float) -> Draw:
    return lambda rng, n, mean: rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, n)


def _pareto(alpha: float) -> Draw:
    return lambda rng, n, mean: mean * (alpha - 1) / alpha * (1 + rng.pareto(alpha, n))


def _items(rng: np.random.Generator, n: int, mean: float) -> np.ndarray:
    """Batches of eight items, one in fifty of which costs a hundred times as much."""
    return mean / (8 * (1 + 99 / 50)) * (8 + 99 * rng.binomial(8, 1 / 50, n))


def _bursts(rng: np.random.Generator, n: int, mean: float) -> np.ndarray:
    """Workers deliver four batches at once."""
    return 4 * mean * (np.arange(n) % 4 == 0) * np.exp(rng.normal(-0.005, 0.1, n))


def _stalls(every: int) -> Draw:
    return lambda rng, n, mean: mean * every * (rng.random(n) < 1 / every)


def _regular(every: int) -> Draw:
    return lambda rng, n, mean: (
        mean * every * ((np.arange(n) + rng.integers(every)) % every == 0) * np.exp(rng.normal(-0.005, 0.1, n))
    )


WAITS: dict[str, Draw] = {
    "even": lambda rng, n, mean: mean * np.exp(_correlated(rng, n, 0.1) - 0.005),
    "exponential": lambda rng, n, mean: rng.exponential(mean, n),
    "bursts of four": _bursts,
    "one long step in 16, regular": _regular(16),
    "one long step in 25, regular": _regular(25),
    "one item in 50 costs 100 times": _items,
    "lognormal, sigma 1.5": _lognormal(1.5),
    "Pareto, alpha 2.5": _pareto(2.5),
    "Pareto, alpha 1.5": _pareto(1.5),
}

STALLS: dict[str, Draw] = {
    **{f"one stall in {n}, at random": _stalls(n) for n in RARE},
    **{f"one stall in {n}, regular": _regular(n) for n in RARE},
}


def _correlated(rng: np.random.Generator, n: int, sd: float, rho: float = 0.6) -> np.ndarray:
    """An AR(1) process of that standard deviation."""
    found = rng.normal(0.0, sd * np.sqrt(1 - rho**2), n)
    found[0] = rng.normal(0.0, sd)
    for i in range(1, n):
        found[i] += rho * found[i - 1]
    return found


def _row(name: str, draw: Draw, n: int, gain: float, rng: np.random.Generator) -> dict[str, Any]:
    covered = refuted = 0
    widths = []
    true = gain / (1 + gain)
    for _ in range(RUNS):
        waits = draw(rng, n, COMPUTE * gain)
        found = share(waits, waits + COMPUTE * np.exp(_correlated(rng, n, 0.05) - 0.05**2 / 2))
        covered += found.lower <= true <= found.upper
        refuted += speed_up(found.upper) - 1 < MINIMUM <= gain
        widths.append(found.upper - found.lower)
    return {
        "wait": name,
        "distinct steps": n,
        "true gain": gain,
        "coverage": covered / RUNS,
        "width": float(np.mean(widths)),
        "refuted falsely": refuted / RUNS,
        "a bound may refute": n >= STEPS[-1],
    }


def measure() -> dict[str, Any]:
    """Everything, deterministic."""
    rng = np.random.default_rng(0)
    rows = [_row(name, draw, n, gain, rng) for name, draw in WAITS.items() for n in STEPS for gain in GAINS]
    rows += [_row(name, draw, STEPS[-1], gain, rng) for name, draw in STALLS.items() for gain in GAINS]
    enough = [row for row in rows if row["a bound may refute"]]
    return {
        "coverage_min": min(row["coverage"] for row in enough),
        "coverage_min_of_few_steps": min(row["coverage"] for row in rows),
        "false_max": max(row["refuted falsely"] for row in enough),
        "runs": RUNS,
        "rows": rows,
    }
