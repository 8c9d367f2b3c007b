"""The batch size that is worth having: not the largest that fits, but the smallest that is about as fast as any.

The search begins with the run's own size. Each next size is twice the last and is measured against the baseline, until
a doubling brings less than the minimum effect or does not fit. If no larger size pays, smaller ones are tried by
halves. Out of memory is an answer: the search goes on by halves between the last size that fits and the first that does
not. Any other failure ends the search.
"""

from __future__ import annotations

from slowstep.factors import CATALOGUE, combine
from slowstep.investigation.lab import Lab
from slowstep.investigation.results import BatchSize
from slowstep.judgement.verdict import Outcome
from slowstep.records import Status

FACTOR = "per_device_train_batch_size"
FAMILY = "batch size"

EXPECTED_SIZES = 8
"""The number of sizes that a search seldom exceeds. Each is measured as one of so many comparisons."""

CLOSE_RATIO = 1.25
"""The ratio of two sizes at which the search between them ends."""


def find_batch(lab: Lab) -> list[BatchSize]:
    """Return every size that was tried, in order of size; none if `budget.find_batch` is off.

    The search itself goes by the measured ratios. A size counts as better by its verdict alone.
    """
    if not lab.settings.budget.find_batch:
        return []
    least = 1 + lab.settings.budget.minimum_effect
    now = int(lab.settings.training(FACTOR))
    tried = [BatchSize(value=now, ratio=1.0)]
    fits, beyond = tried[0], None
    while (value := _next(fits.value, beyond)) is not None:
        size = _measure(lab, value)
        tried.append(size)
        if size.ratio is None:
            if not size.too_big:
                break
            beyond = value
            continue
        if size.ratio < fits.ratio * least:
            break  # a plateau: the device is busy, and a larger batch only waits longer
        fits = size
    value = now // 2 if fits is tried[0] else 0  # nothing larger pays: a smaller one may do as well
    while value:
        size = _measure(lab, value)
        tried.append(size)
        value = value // 2 if size.ratio is not None and size.ratio * least >= 1 else 0
    known = {m.verdict.name for m in lab.measured}
    lab.keep([s.measured for s in tried if s.measured and s.measured.verdict.name not in known], FAMILY)
    return sorted(tried, key=lambda s: s.value)


def _next(fits: int, beyond: int | None) -> int | None:
    if beyond is None:
        return 2 * fits
    middle = (fits + beyond) // 2
    return None if middle in (fits, beyond) or beyond / fits <= CLOSE_RATIO else middle


def _measure(lab: Lab, value: int) -> BatchSize:
    factor = CATALOGUE[FACTOR]
    contrast = combine(lab.settings, [(factor, factor.level(value, lab.settings.run))], lab.machine)
    measured = lab.compare(contrast, contrast.name, comparisons=EXPECTED_SIZES, combines=False)
    verdict = measured.verdict
    effect = verdict.effect if verdict.outcome is not Outcome.NOT_TESTABLE else None
    return BatchSize(
        value=value,
        ratio=effect.ratio if effect else None,
        too_big=verdict.status is Status.OUT_OF_MEMORY,
        measured=measured,
    )
