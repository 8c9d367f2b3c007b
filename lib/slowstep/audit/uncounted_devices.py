"""Speeds that are not those of all devices, or may not be, where nobody counts the devices."""

from __future__ import annotations

import re

from slowstep.audit.device_words import counted_in
from slowstep.audit.equal_work import FULL_LENGTH, OF_A_DEVICE
from slowstep.audit.figures import shown
from slowstep.audit.relations import FITS, TITLES, solve
from slowstep.audit.run import ReportedRun

DEVICES = "the figures don't say how many devices each was trained on"
OF_ONE = "the speeds are those of one device"
OF_A_BATCH = "the samples of a step are those of one device's batch"

COMPARED = re.compile(r"\b(?:as|than|vs\.?|versus|over|on)\s+(\d{1,4})(?=\s*(?:[,;)]|\.(?!\d)|$))", re.IGNORECASE)
"""A number that another one is compared with, without the thing that is counted: `64 GPUs are as fast as 8`."""

BY_BATCHES = (TITLES["samples_per_second"], TITLES["tokens_per_second"], FULL_LENGTH)
"""Units of speeds that may follow from steps and the batch of a device."""


def uncounted_devices(a: ReportedRun, b: ReportedRun, unit: str, text: str = "") -> str:
    """Return why speeds of two rows may not be those of all their devices; empty where nothing says so.

    `unit` is that of their comparison, and `text` that of a claim on them.
    """
    told_unlike = _told_unlike(a, b, text)
    if told_unlike and all(map(_of_one_device, (a, b))):
        return f"{OF_ONE}, and {DEVICES}"
    if unit not in BY_BATCHES or not all(map(_by_batch, (a, b))):
        return ""
    if told_unlike:
        return f"{OF_A_BATCH}, and {DEVICES}"
    many = [_samples_in_all(run) for run in (a, b)]
    if None in many or not all(many):
        return ""
    ratio = max(many) / min(many)
    power_of_two = round(ratio) > 1 and round(ratio) & (round(ratio) - 1) == 0  # as in real nodes
    if not power_of_two or abs(ratio / round(ratio) - 1) > FITS:
        return ""
    said = " and ".join(f"'{run.label}' trained on {shown(each)}" for run, each in zip((a, b), many, strict=True))
    return f"{OF_A_BATCH}, by which {said} in all, and {DEVICES}"


def _told_unlike(a: ReportedRun, b: ReportedRun, text: str) -> bool:
    """Return whether the names of two rows, or the `text` of a claim, tell unlike numbers of devices."""
    counts = [counted_in(words) for words in (a.label, b.label)]
    if not all(counts):
        of_text = counted_in(text)
        counts = [of_text, of_text | {*COMPARED.findall(text)}] if of_text else []
    return len(set().union(*counts)) > 1


def _of_one_device(run: ReportedRun) -> bool:
    each = [q.removesuffix(OF_A_DEVICE) for q in run.given if q.endswith(OF_A_DEVICE)]
    return bool(each) and "devices" not in run.given and run.given.keys().isdisjoint(each)


def _by_batch(run: ReportedRun) -> bool:
    """Return whether the samples of a run's steps are known by its batch alone, and nobody counts its devices."""
    own = solve({q: f for q, f in run.given.items() if q in TITLES}).known
    return (
        run.says_batch
        and "devices" not in run.given
        and own.keys().isdisjoint(("samples_per_step", "samples_per_second"))
    )


def _samples_in_all(run: ReportedRun) -> float | None:
    """Return how many samples the steps of a log make up; None for other rows."""
    steps, samples = run.rests_on.get("planned"), run.solved.known.get("samples_per_step")
    return steps * samples.middle if steps and samples and samples.bounded else None
