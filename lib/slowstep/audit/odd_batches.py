"""Rows whose figures make a step of another size than their batch says, where the other rows agree with theirs.

A column `batch size` may be the batch of a device or that of all, and is often not read. Whichever it is, a step has a
whole number of such batches, and the same number in rows that nothing else tells apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from slowstep.audit.figures import Figure, exact
from slowstep.audit.findings import Finding, FindingKind
from slowstep.audit.relations import TITLES
from slowstep.audit.run import ReportedRun
from slowstep.audit.unclear_batches import is_batch_size

FEWEST = 2
"""The number of other rows that have as many samples as their batches say."""

OFF = 0.03
"""The share by which samples may miss a whole number of batches: they are reckoned over warm-up and short batches."""


def odd_batches(runs: Sequence[ReportedRun]) -> list[Finding]:
    """Find rows whose samples a step are no multiple of their batch, where those of the others are the same one."""
    each = [(run, *sizes) for run in runs if run.measured and (sizes := _sizes(run))]
    usual = round(median((samples / size).middle for _, samples, size in each)) if len(each) > FEWEST else 0
    odd = [(run, samples, size) for run, samples, size in each if usual and (samples / size).gap(exact(usual)) > OFF]
    if len(each) - len(odd) < max(FEWEST, len(odd) + 1):
        return []
    return [
        Finding(
            kind=FindingKind.ARITHMETIC,
            where=run.label,
            text=f"its figures make {samples} {TITLES['samples_per_step']}, and its batch size is {size:g}; in the "
            f"other rows a step has {'as many' if usual == 1 else f'{usual} times as many'} samples as the batch: one "
            "of its figures is wrong",
        )
        for run, samples, size in odd
        if not _is_whole(samples / size)
    ]


def _sizes(run: ReportedRun) -> tuple[Figure, float] | None:
    """Return the samples a step by the figures of a row, and the batch size of a column that was not read."""
    samples = run.solved.known.get("samples_per_step")
    sizes = [size for name, size in run.beside.items() if is_batch_size(name)]
    return (samples, sizes[0]) if samples and samples.bounded and len(sizes) == 1 and sizes[0] > 0 else None


def _is_whole(several: Figure) -> bool:
    """Return whether a step may be a whole number of batches, on more devices or accumulated, or a batch several."""
    more = several if several.middle > 1 else 1 / several
    return more.gap(exact(round(more.middle))) <= OFF
