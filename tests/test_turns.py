"""The order of the arms in pairs."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from slowstep.judgement.comparison import LOOKS
from slowstep.judgement.intervals import NOMINAL_P, Interval, paired
from slowstep.judgement.stopping import StopRule
from slowstep.measure.turns import BASELINE, draw_first_sides

RULE = StopRule(max_pairs=LOOKS[-1], minimum_effect=0.05)


def test_each_arm_goes_first_in_one_of_two_pairs() -> None:
    """Which one begins is drawn, by the seed: both begin in some comparisons."""
    orders = [list(islice(draw_first_sides(seed), 12)) for seed in range(20)]

    assert {1} == {a + b for order in orders for a, b in zip(order[::2], order[1::2], strict=True)}
    assert {0, 1} == {order[0] for order in orders}
    assert list(islice(draw_first_sides(3), 12)) == orders[3]


def concluded(seed: int, gain: float, advantage: float) -> Interval:
    """The effect at which a comparison ends, whose second arm is faster by `advantage` in each pair, as log-ratios."""
    order = np.array(list(islice(draw_first_sides(seed), LOOKS[-1])))
    noise = np.random.default_rng(seed).normal(0.0, 0.01, len(order))
    ratios = gain + np.where(order == BASELINE, advantage, -advantage) + noise
    n = next(n for n in LOOKS if RULE.ends(ratios[:n], ()))
    return paired(ratios[:n])


@pytest.mark.parametrize("advantage", [0.1, 0.3])
def test_an_arm_that_finds_in_memory_what_the_other_one_read_is_not_taken_for_faster(advantage: float) -> None:
    """Whichever arm is second has it easier, and nothing is supported or refuted by that, whatever the draw."""
    equal = [concluded(seed, 0.0, advantage) for seed in range(40)]
    faster = [concluded(seed, 0.15, advantage) for seed in range(40)]

    assert not any(effect.lower > 0 and effect.p <= NOMINAL_P for effect in equal)
    assert not any(effect.high < 1.05 for effect in faster)
