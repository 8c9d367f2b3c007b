"""Losses of two arms from the same seed: do their first optimizer steps show that both trained the same?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from slowstep.judgement.observed_sizes import samples_of_step
from slowstep.records import ComparisonRecord, TrialRecord

TOLERANCE = 0.01
"""Difference of a step's loss that an exact change may make, as only the order of summation differs. It is relative to
that loss or to the run's, whichever is larger."""

ROUNDINGS = 2
"""The roundings to the losses' own dtype by which an exact change may move a loss, where that is more."""

ROUNDING_NOISE = 4
"""The roundings of a one below which losses are nothing but rounding: what is left of terms around one that cancel."""

CANCELLING_SHARE = 0.5
"""The mean loss, relative to that of the losses without their signs, below which it is what is left of losses of both
signs. A difference relative to it says nothing."""

EXACT_STEPS = 8
"""The number of first steps whose losses are compared one by one. Later ones drift apart by rounding alone."""

MEAN_TOLERANCE = 0.03
"""Relative difference of the mean over all losses kept that rounding in later steps, or dropout's other masks, may
make. A run whose updates are wrong or missing agrees in the first steps, where little is learned, but not here."""

CHANCE_ERRORS = 3.0
"""The standard errors by which mean losses may differ by chance, where steps train on other random numbers."""

MOST_BY_CHANCE = 0.3
"""The relative difference of mean losses that chance is not believed to make, however much single losses scatter."""

FEWEST = 4
"""The fewest losses with a standard error."""

LEARNING_STEPS = 1.0
"""The steps at the full learning rate that all compared ones have to be worth together. What learns less hardly moves
its weights, as in the first steps of a long warm-up: there a run whose updates are wrong or missing has the same
losses."""

DATA = ("padding", "max_length", "train_sampling_strategy", "cached_batches")
"""Facts that decide which samples come, and how much of each is seen."""

RANDOM = ("dropout", "draws")
"""Facts that say that a run differs from another by chance."""


def same(record: ComparisonRecord, reorders_draws: bool = False) -> bool | None:
    """Return whether both arms trained the same; None if there are no losses to compare, or if they say nothing.

    The mean losses over the same samples must agree. If nothing is random, the first losses must also agree one by one.
    `reorders_draws` says that the change may give a program other random numbers: loader workers have their own. Where
    arms hardly learn, losses that differ say something, and losses that agree say nothing.
    """
    found = _losses_agree(record, reorders_draws)
    return None if found and learning_rate_reached(record) is not None else found


def learning_rate_reached(record: ComparisonRecord) -> float | None:
    """Return how far the learning rate came in the compared steps, as a part of the one that was set.

    None if an arm learns enough in these steps, or if that is not known.
    """
    a, b = (arm.learning_rates for arm in (record.baseline, record.treatment))
    compared = min(len(a), len(b))
    if not compared or max(sum(a[:compared]), sum(b[:compared])) >= LEARNING_STEPS:
        return None
    return max(*a[:compared], *b[:compared])


def _losses_agree(record: ComparisonRecord, reorders_draws: bool) -> bool | None:
    if wrote_into_others(record):
        return None
    arms = (record.baseline, record.treatment)
    if reorders_draws or any(arm.observed.get(fact) for arm in arms for fact in RANDOM):
        return _means_agree(record, CHANCE_ERRORS)
    near = _means_agree(record, 0.0)
    a, b = record.baseline.losses, record.treatment.losses
    if not (a and b) or _are_rounding_only(a, b):
        return None
    run, relative = _root_mean_square(a), max(TOLERANCE, ROUNDINGS * _relative_rounding(a, b))
    first = zip(a[:EXACT_STEPS], b[:EXACT_STEPS], strict=False)
    return near is not False and all(abs(x - y) <= relative * max(abs(x), run) for x, y in first)


def wrote_into_others(record: ComparisonRecord) -> bool:
    """Return whether, while an arm trained, one wrote into frozen weights that trials share on a device.

    A host gives the writer copies of its own. On a device the others read what was written, and train otherwise.
    """
    arms = (record.baseline, record.treatment)
    return any(arm.observed.get("frozen_bytes_written_on_device") for arm in arms)


def _means_agree(record: ComparisonRecord, errors: float) -> bool | None:
    """Return whether the mean losses agree, within what rounding may make of them, or so many standard errors.

    Where losses of both signs cancel, they are only told to differ, and only by what neither rounding nor chance makes.
    """
    same_samples = _over_same_samples(record)
    a, b = record.baseline.losses, record.treatment.losses
    if same_samples is None or _are_rounding_only(a, b):
        return None
    (mean_a, mean_b), apart = map(_mean, same_samples), [y - x for x, y in zip(a, b, strict=False)]
    n, middle = len(apart), _mean(apart)
    error = math.sqrt(sum((one - middle) ** 2 for one in apart) / (n - 1) / n) if n >= FEWEST else 0.0
    if _signs_cancel(same_samples[0]):
        beyond = abs(mean_b - mean_a) > max(CHANCE_ERRORS * error, MOST_BY_CHANCE * _root_mean_square(a))
        return False if n >= FEWEST and beyond else None
    by_chance = min(errors * error / abs(mean_a), MOST_BY_CHANCE)
    return abs(mean_b / mean_a - 1) <= max(MEAN_TOLERANCE, by_chance)


def change(record: ComparisonRecord) -> float | None:
    """Return the relative change of the mean loss over the first samples of both arms.

    None if the samples differ, if an arm wrote into weights that the other one reads, if both hardly learn, or if the
    baseline's mean is only what is left of losses that cancel.
    """
    same_samples = _over_same_samples(record)
    if same_samples is None or _signs_cancel(same_samples[0]) or _are_rounding_only(*same_samples):
        return None
    if learning_rate_reached(record) is not None:
        return None
    mean_a, mean_b = map(_mean, same_samples)
    return mean_b / mean_a - 1


def _over_same_samples(record: ComparisonRecord) -> tuple[Sequence[float], Sequence[float]] | None:
    """Return the losses of each arm over the same samples; None if there are none.

    Steps of the two arms may hold different numbers of samples, so the longest stretch counts at whose end both arms
    end a step.
    """
    a, b = record.baseline, record.treatment
    if any(a.observed.get(fact) != b.observed.get(fact) for fact in DATA) or wrote_into_others(record):
        return None
    ends_a, ends_b = _samples_by_step(a), _samples_by_step(b)
    common = max(set(ends_a) & set(ends_b), default=0)
    return (a.losses[: ends_a.index(common) + 1], b.losses[: ends_b.index(common) + 1]) if common else None


def _mean(losses: Sequence[float]) -> float:
    return sum(losses) / len(losses)


def _root_mean_square(losses: Sequence[float]) -> float:
    """Return the size of a run's losses, whatever their signs: the root of their mean square."""
    return math.sqrt(sum(loss * loss for loss in losses) / len(losses))


def _signs_cancel(losses: Sequence[float]) -> bool:
    """Return whether losses of both signs cancel in their mean, as those of a critic or of a policy gradient do."""
    return abs(sum(losses)) <= CANCELLING_SHARE * sum(map(abs, losses))


def _relative_rounding(*arms: Sequence[float]) -> float:
    """Return the relative rounding of the coarsest dtype that holds all these losses: bfloat16, float16 or float32."""
    values = np.array([loss for losses in arms for loss in losses], dtype=np.float32)
    if not (values.view(np.uint32) & 0xFFFF).any():
        return 2.0**-7
    with np.errstate(over="ignore"):
        return 2.0**-10 if (values.astype(np.float16) == values).all() else 2.0**-23


def _are_rounding_only(*arms: Sequence[float]) -> bool:
    """Return whether the losses of all arms are nothing but rounding."""
    return all(_root_mean_square(losses) <= ROUNDING_NOISE * _relative_rounding(*arms) for losses in arms)


def _samples_by_step(trial: TrialRecord) -> list[int]:
    """Return the number of samples trained on by the end of each step."""
    return list(accumulate([samples_of_step(trial.observed)] * len(trial.losses)))
