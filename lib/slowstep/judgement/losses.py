"""Losses of two arms from the same seed: do their first optimizer steps show that both trained the same?"""

from __future__ import annotations

import math
from itertools import accumulate

from slowstep.records import ComparisonRecord, TrialRecord

TOLERANCE = 0.01
"""Relative difference of a step's loss that an exact change may make, as only the order of summation differs."""

EXACT_STEPS = 8
"""The number of first steps whose losses are compared one by one. Later ones drift apart by rounding alone."""

MEAN_TOLERANCE = 0.03
"""Relative difference of the mean over all losses kept that rounding in later steps, or dropout's other masks, may
make. A run whose updates are wrong or missing agrees in the first steps, where little is learned, but not here."""

CHANCE = 3.0
"""The standard errors by which mean losses may differ by chance, where steps train on other random numbers."""

MOST_BY_CHANCE = 0.3
"""The relative difference of mean losses that chance is not believed to make, however much single losses scatter."""

FEWEST = 4
"""The fewest losses with a standard error."""

DATA = ("padding", "max_length", "train_sampling_strategy", "cached_batches")
"""Facts that decide which samples come, and how much of each is seen."""


def same(record: ComparisonRecord, reorders_draws: bool = False) -> bool | None:
    """Return whether both arms trained the same; None if there are no losses to compare.

    The mean losses over the same samples must agree. If nothing is random, the first losses must also agree one by one.
    `reorders_draws` says that the change may give a program other random numbers: loader workers have their own.
    """
    if wrote_into_others(record):
        return None
    arms = (record.baseline, record.treatment)
    if reorders_draws or any(arm.observed.get(fact) for arm in arms for fact in RANDOM):
        return _near(record, CHANCE)
    near = _near(record, 0.0)
    pairs = list(zip(record.baseline.losses[:EXACT_STEPS], record.treatment.losses[:EXACT_STEPS], strict=False))
    return near is not False and all(abs(a - b) <= TOLERANCE * abs(a) for a, b in pairs) if pairs else None


def wrote_into_others(record: ComparisonRecord) -> bool:
    """Return whether, while an arm trained, one wrote into frozen weights that trials share on a device.

    A host gives the writer copies of its own. On a device the others read what was written, and train otherwise.
    """
    arms = (record.baseline, record.treatment)
    return any(arm.observed.get("frozen_bytes_written_on_device") for arm in arms)


RANDOM = ("dropout", "draws")
"""Facts that say that a run differs from another by chance."""


def _near(record: ComparisonRecord, errors: float) -> bool | None:
    """Return whether the mean losses agree, within what rounding may make of them, or so many standard errors."""
    changed = change(record)
    if changed is None:
        return None
    a, b = record.baseline.losses, record.treatment.losses
    apart = [y - x for x, y in zip(a, b, strict=False)]
    n, mean = len(apart), sum(a[: len(apart)]) / max(1, len(apart))
    if n < FEWEST or not mean:
        return abs(changed) <= MEAN_TOLERANCE
    middle = sum(apart) / n
    error = math.sqrt(sum((one - middle) ** 2 for one in apart) / (n - 1) / n) / abs(mean)
    return abs(changed) <= max(MEAN_TOLERANCE, min(errors * error, MOST_BY_CHANCE))


def change(record: ComparisonRecord) -> float | None:
    """Return the relative change of the mean loss over the first samples of both arms.

    None if the samples differ, or if an arm wrote into weights that the other one reads.

    Steps of the two arms may hold different numbers of samples, so the longest stretch counts at whose end both arms
    end a step.
    """
    a, b = record.baseline, record.treatment
    if any(a.observed.get(fact) != b.observed.get(fact) for fact in DATA) or wrote_into_others(record):
        return None
    ends_a, ends_b = _ends(a), _ends(b)
    common = max(set(ends_a) & set(ends_b), default=0)
    if not common:
        return None
    first_a, first_b = a.losses[: ends_a.index(common) + 1], b.losses[: ends_b.index(common) + 1]
    mean_a, mean_b = sum(first_a) / len(first_a), sum(first_b) / len(first_b)
    return mean_b / mean_a - 1 if mean_a else None


def _ends(trial: TrialRecord) -> list[int]:
    """Return the number of samples trained on by the end of each step."""
    names = ("per_device_train_batch_size", "gradient_accumulation_steps", "world_size")
    step = math.prod(int(trial.observed.get(name) or 1) for name in names)
    return list(accumulate([step] * len(trial.losses)))
