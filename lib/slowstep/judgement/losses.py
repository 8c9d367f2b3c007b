"""Whether two arms trained the same: the losses of their first optimizer steps, from the same seed."""

from __future__ import annotations

from itertools import accumulate

from slowstep.records import ComparisonRecord, TrialRecord

TOLERANCE = 0.01
"""Relative difference of a step's loss that an exact change may make: order of summation, nothing more."""

EXACT_STEPS = 8
"""Steps whose losses are held against each other one by one; later ones drift apart by rounding alone."""

MEAN_TOLERANCE = 0.03
"""Relative difference of the mean over all losses kept: what rounding makes of the later steps, or dropout's other
masks. A run whose updates are wrong or missing agrees in the first steps, where little is learned, and not here."""

DATA = ("padding", "max_length", "train_sampling_strategy", "cached_batches")
"""What decides which samples come, and what of them is seen."""


def same(record: ComparisonRecord) -> bool | None:
    """Whether the mean losses over the same samples agree, and without dropout the first ones one by one; None if
    there are none to compare."""
    changed = change(record)
    near = None if changed is None else abs(changed) <= MEAN_TOLERANCE
    if record.baseline.observed.get("dropout") or record.treatment.observed.get("dropout"):
        return near
    pairs = list(zip(record.baseline.losses[:EXACT_STEPS], record.treatment.losses[:EXACT_STEPS], strict=False))
    return near is not False and all(abs(a - b) <= TOLERANCE * abs(a) for a, b in pairs) if pairs else None


def change(record: ComparisonRecord) -> float | None:
    """Relative change of the mean loss over the first samples that both arms trained on; None if those differ.

    Steps of the two arms may hold different numbers of samples, so it is the longest stretch that ends with a step of
    both.
    """
    a, b = record.baseline, record.treatment
    if any(a.observed.get(fact) != b.observed.get(fact) for fact in DATA):
        return None
    ends_a, ends_b = _ends(a), _ends(b)
    common = max(set(ends_a) & set(ends_b), default=0)
    if not common:
        return None
    first_a, first_b = a.losses[: ends_a.index(common) + 1], b.losses[: ends_b.index(common) + 1]
    mean_a, mean_b = sum(first_a) / len(first_a), sum(first_b) / len(first_b)
    return mean_b / mean_a - 1 if mean_a else None


def _ends(trial: TrialRecord) -> list[int]:
    """Samples trained on when each step ends."""
    names = ("per_device_train_batch_size", "gradient_accumulation_steps")
    batch, parts = (int(trial.observed.get(name) or 1) for name in names)
    return list(accumulate([batch * parts] * len(trial.losses)))
