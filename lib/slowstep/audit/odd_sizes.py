"""Rows whose figures make a step, or a sample, of another size than they say, where the other rows agree with theirs.

A batch size may be that of a device or that of all, and may be accumulated in a way that nobody states. Whichever it
is, a step has a whole number of such batches, and the same number in rows that nothing else tells apart. A sample has
at most as many tokens as its length, which stands in a column that is often not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from slowstep.audit.figures import Figure, exact
from slowstep.audit.findings import Finding, FindingKind
from slowstep.audit.relations import TITLES
from slowstep.audit.run import ReportedRun
from slowstep.audit.sample_sizes import is_length
from slowstep.audit.unclear_batches import is_batch_size

FEWEST = 2
"""The number of other rows whose figures make as much as they say."""

OFF = 0.03
"""The share by which samples may miss a whole number of batches: they are reckoned over warm-up and short batches."""


@dataclass(frozen=True)
class Made:
    """What the figures of a row make of a quantity, and the size that it says."""

    run: ReportedRun
    quantity: str
    figure: Figure
    size: float
    called: str

    @property
    def times(self) -> Figure:
        """Return how many of such sizes the figures make."""
        return self.figure / self.size

    def may_be(self, usual: int) -> bool:
        """Return whether the row may be right where others make the `usual` number: of less text, or other batches."""
        if self.times.gap(exact(usual)) <= OFF:
            return True
        if self.quantity in OF_TEXT:
            return self.times.middle < 1
        more = self.times if self.times.middle > 1 else 1 / self.times
        return more.gap(exact(round(more.middle))) <= OFF

    def __str__(self) -> str:
        return f"{self.figure} {TITLES[self.quantity]}, and its {self.called} is {self.size:g}"


OF_TEXT = ("tokens_per_sample",)
"""Quantities that may be less than the size that a row says."""


def odd_sizes(runs: Sequence[ReportedRun]) -> list[Finding]:
    """Find rows whose samples a step are no multiple of their batch, or whose samples are longer than they may be."""
    found = []
    for each in _by_quantity(runs):
        usual = round(median(one.times.middle for one in each)) if len(each) > FEWEST else 0
        odd = [one for one in each if usual and one.times.gap(exact(usual)) > OFF]
        if len(each) - len(odd) < max(FEWEST, len(odd) + 1):
            continue
        many = "as many as that" if usual == 1 else f"{usual} times that"
        found += [
            Finding(
                kind=FindingKind.ARITHMETIC,
                where=one.run.label,
                text=f"its figures make {one}; those of the other rows make {many}: one of its figures is wrong",
            )
            for one in odd
            if not one.may_be(usual)
        ]
    return found


def unlike_sizes(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about two rows of which one makes as much as it says, and the other does not.

    Of more rows, `odd_sizes` tells which one is wrong.
    """
    found = []
    for each in _by_quantity(runs):
        first, last = sorted(each, key=lambda one: one.times.middle) if len(each) == FEWEST else (None, None)
        fits = [one for one in (first, last) if one and one.times.gap(exact(1)) <= OFF]
        other = last if fits == [first] else first
        if len(fits) == 1 and other and not (other.quantity in OF_TEXT and other.may_be(1)):
            several = round(other.times.middle)
            whole = several > 1 and other.times.gap(exact(several)) <= OFF
            why = f"was it on {several} devices, were batches accumulated, or is" if whole else "is"
            found.append(
                f"The figures of '{other.run.label}' make {other}; those of '{fits[0].run.label}' make as many: {why} "
                "one of its figures wrong?"
            )
    return found


def _by_quantity(runs: Sequence[ReportedRun]) -> list[list[Made]]:
    every = [one for run in runs if run.measured for one in _made(run)]
    return [[one for one in every if one.quantity == quantity] for quantity in ("samples_per_step", *OF_TEXT)]


def _made(run: ReportedRun) -> Iterator[Made]:
    """Yield what the figures of a row make of a step and of a sample, beside its batch and its length.

    An epoch takes its steps at least, so that it may show no more than how many samples a step has at least.
    """
    batches = [size for name, size in run.beside.items() if is_batch_size(name)]
    if run.says_batch and run.copies and not batches:
        batches = [(run.settings.effective_batch_size * run.copies).middle]
    lengths = [run.length] if run.length else [size for name, size in run.beside.items() if is_length(name)]
    for quantity, sizes, called in (("samples_per_step", batches, "batch size"), (*OF_TEXT, lengths, "length")):
        figure = run.solved.known.get(quantity)
        if figure and figure.low > 0 and quantity not in run.given and len(sizes) == 1 and sizes[0] > 0:
            yield Made(run, quantity, figure, sizes[0], called)
