"""The comparison rule on simulated machines whose truth is known, beside what people use today.

Every rule sees the same kind of machine. The kit's rule is the library's own (`judgement.comparison.read`), asked at
each look, with new launches between looks where they weigh, as a measurer measures. The others spend a fixed effort.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from bench.validation.regimes import REGIMES, STEPS, Regime, pairs
from slowstep.judgement.comparison import EQUAL, LOOKS, Reading, reading
from slowstep.judgement.intervals import paired
from slowstep.judgement.stopping import StopRule

RUNS = 2000
EFFECTS = (0.0, 0.01, 0.03, 0.05, 0.10, 0.25)
RUN_STEPS = 120
"""Steps of a run in the rules that people use; about what the kit spends."""

REPEATS = 3
BEST_OF = 5

FASTER, SLOWER, SAME, OPEN = "faster", "slower", "equal", "inconclusive"


RULE = StopRule(max_pairs=LOOKS[-1], minimum_effect=0.05)
"""The rule of a comparison that is one of a kind; it says when launches are needed, and when a verdict is reached."""


def kit(regime: Regime, rng: np.random.Generator, effect: float) -> tuple[list[str], float]:
    """Readings of the library's rule, and the mean number of pairs they took."""
    found, spent = [], 0
    for ratios, offsets in zip(*pairs(regime, rng, RUNS, LOOKS, effect), strict=True):
        launches: list[int] = []
        launch = 0
        for n in LOOKS:
            launches += [launch] * (n - len(launches))
            seen = ratios[:n] + offsets[launches]
            kind = reading(seen, launches)
            if kind is not Reading.INCONCLUSIVE:
                break
            launch += RULE.look_needs_new_launches(seen, launches)
        spent += n
        found.append(str(kind).replace("practically ", ""))
    return found, spent / RUNS


def refuted(regime: Regime, rng: np.random.Generator, effect: float) -> float:
    """Return the share of comparisons that end with the gain refuted, where the true gain is `effect`."""
    found = 0
    for ratios, offsets in zip(*pairs(regime, rng, RUNS, LOOKS, effect), strict=True):
        launches: list[int] = []
        launch = 0
        for n in LOOKS:
            launches += [launch] * (n - len(launches))
            seen = ratios[:n] + offsets[launches]
            if RULE.ends(seen, launches):
                break
            launch += RULE.look_needs_new_launches(seen, launches)
        found += paired(seen, launches).high < 1 + RULE.minimum_effect
    return found / RUNS


def _consecutive(regime: Regime, rng: np.random.Generator, effect: float, repeats: int) -> list[np.ndarray]:
    """Steps of all runs of the baseline, and then all of the treatment: two arrays (RUNS, repeats, RUN_STEPS)."""
    steps = regime.times(rng, RUNS, 2 * repeats * RUN_STEPS).reshape(RUNS, 2, repeats, RUN_STEPS)
    steps = steps * np.exp(regime.offsets(rng, RUNS, 2 * repeats).reshape(RUNS, 2, repeats, 1) / np.sqrt(2))
    return [steps[:, 0], steps[:, 1] / (1 + effect)]


def _by_size(gain: np.ndarray) -> list[str]:
    """How a figure without an interval is read: beyond 3 % it is a difference."""
    return [FASTER if g > EQUAL else SLOWER if g < -EQUAL else SAME for g in gain]


def _by_test(a: np.ndarray, b: np.ndarray, test: Callable[..., Any]) -> list[str]:
    p = np.array([test(x.ravel(), y.ravel()).pvalue for x, y in zip(a, b, strict=True)])
    gain = a.mean((1, 2)) - b.mean((1, 2))
    return [SAME if q >= 0.05 else FASTER if g > 0 else SLOWER for q, g in zip(p, gain, strict=True)]


def one_run(regime: Regime, rng: np.random.Generator, effect: float) -> list[str]:
    """A run of each, and the ratio of their times."""
    a, b = _consecutive(regime, rng, effect, 1)
    return _by_size(np.log(a.sum((1, 2)) / b.sum((1, 2))))


def repeats(regime: Regime, rng: np.random.Generator, effect: float) -> list[str]:
    """The mean of three runs of one, then of three of the other."""
    a, b = _consecutive(regime, rng, effect, REPEATS)
    return _by_size(np.log(a.sum((1, 2)) / b.sum((1, 2))))


def best_of(regime: Regime, rng: np.random.Generator, effect: float) -> list[str]:
    """The fastest of five runs of each."""
    a, b = _consecutive(regime, rng, effect, BEST_OF)
    return _by_size(np.log(a.sum(2).min(1) / b.sum(2).min(1)))


def t_on_steps(regime: Regime, rng: np.random.Generator, effect: float) -> list[str]:
    """A run of each, and a t-test on their steps."""
    return _by_test(*_consecutive(regime, rng, effect, 1), test=stats.ttest_ind)


def mann_whitney_on_steps(regime: Regime, rng: np.random.Generator, effect: float) -> list[str]:
    """A run of each, and a Mann-Whitney test on their steps."""
    return _by_test(*_consecutive(regime, rng, effect, 1), test=stats.mannwhitneyu)


OTHERS = {
    "one run each": one_run,
    f"mean of {REPEATS} consecutive runs": repeats,
    f"best of {BEST_OF} runs": best_of,
    "t-test on steps": t_on_steps,
    "Mann-Whitney on steps": mann_whitney_on_steps,
}


def _share(found: list[str], *kinds: str) -> float:
    return sum(f in kinds for f in found) / len(found)


def _row(readings: Callable[[float], list[str]]) -> dict[str, float]:
    """What a rule does in a regime: false readings, false "equal", and power by true effect."""
    by_effect = {effect: readings(effect) for effect in EFFECTS}
    margin = readings(np.expm1(EQUAL))
    return {
        "false readings": _share(by_effect[0.0], FASTER, SLOWER),
        "false equal at the margin": _share(margin, SAME),
        "equal where equal": _share(by_effect[0.0], SAME),
        **{f"power at +{effect:.0%}": _share(found, FASTER) for effect, found in by_effect.items() if effect},
    }


def measure() -> dict[str, Any]:
    """Everything, deterministic."""
    rows: list[dict[str, Any]] = []
    for i, (name, regime) in enumerate(REGIMES.items()):
        rng, spent = np.random.default_rng(i), {}

        def kits(effect: float, regime: Regime = regime, rng: Any = rng, spent: dict = spent) -> list[str]:
            found, spent[effect] = kit(regime, rng, effect)
            return found

        row = _row(kits) | {"refuted at the minimum effect": refuted(regime, rng, RULE.minimum_effect)}
        rows.append({"regime": name, "rule": "slowstep", **row} | {f"pairs at {e:.0%}": spent[e] for e in EFFECTS})
        for rule, readings in OTHERS.items():
            rows.append({"regime": name, "rule": rule, **_row(lambda effect: readings(regime, rng, effect))})  # noqa: B023
    own = [r for r in rows if r["rule"] == "slowstep"]
    return {
        "false_readings_max": max(r["false readings"] for r in own),
        "false_equal_max": max(r["false equal at the margin"] for r in own),
        "false_refuted_max": max(r["refuted at the minimum effect"] for r in own),
        "power_10pct_min": min(r["power at +10%"] for r in own),
        "runs": RUNS,
        "steps_a_block": STEPS,
        "rows": rows,
    }
