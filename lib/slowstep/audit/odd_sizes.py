"""Rows whose figures make a step, or a sample, of another size than they say, where the other rows agree with theirs.

A batch size may be that of a device or that of all, and may be accumulated in a way that nobody states. Whichever it
is, a step has a whole number of such batches, and the same number in rows that nothing else tells apart. A sample has
at most as many tokens as its length, which stands in a column that is often not read.

Other columns are products of figures by their names, such as energy, the cost of a sample and device-days. Whatever
their units are, each is as many times its product in each row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from slowstep.audit.figures import Figure, exact
from slowstep.audit.findings import Finding, FindingKind, times
from slowstep.audit.relations import TITLES
from slowstep.audit.run import ReportedRun
from slowstep.audit.sample_sizes import is_length
from slowstep.audit.unclear_batches import is_batch_size

FEWEST = 2
"""The number of other rows whose figures make as much as they say."""

OFF = 0.03
"""The share by which samples may miss a whole number of batches: they are reckoned over warm-up and short batches."""


POWER = re.compile(r"\b(?:power|watts?|wattage|draw)\b|[(\[]k?w[)\]]", re.IGNORECASE)
"""Headers of power, which is a factor of energy."""

EACH_SAMPLE = r"(?:/|\bper\b).*(?:sample|image|img|example|seq)"
EACH_TOKEN = r"(?:/|\bper\b).*tok"
ENERGY = r"(?:\benergy\b|\b[km]?wh\b|\bjoules?\b|[(\[][km]?j[)\]]|^[km]?j\b)"
MONEY = r"(?:\b(?:cost|price)\b|[$€£]|\b(?:usd|eur)\b)"
PRODUCTS = tuple(
    (re.compile(words, re.IGNORECASE), above, below)
    for words, above, below in (
        (rf"{ENERGY}.*{EACH_SAMPLE}", "power", "samples_per_second"),
        (rf"{ENERGY}.*{EACH_TOKEN}", "power", "tokens_per_second"),
        (rf"{MONEY}.*{EACH_SAMPLE}", "price_per_hour", "samples_per_second"),
        (rf"{ENERGY}(?!.*(?:/|\bper\b))", "power", "a whole time"),
        (r"\b(?:gpu|device|accelerator|node)[ -]days?\b", "devices", "a whole time"),
    )
)
"""What such columns are called, each with what they grow with and the speed that they fall with. The first that fits
counts; a whole time is the inverse of a speed."""

OFF_PRODUCT = 0.05
"""The share by which such a product may be off in one row beside another one."""


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


def unlike_products(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about rows in which such a column is another number of times its product than in the other rows."""
    found = []
    for name in dict.fromkeys(name for run in runs if run.measured for name in run.beside):
        each = [(run, ratio) for run in runs if run.measured for ratio in _ratios(name, run)]
        usual = median(ratio for _, ratio in each) if len(each) > 2 else each[0][1] if each else 0.0
        odd = [(run, ratio / usual) for run, ratio in each if abs(ratio / usual - 1) > OFF_PRODUCT]
        if len(odd) == 1:
            run, ratio = odd[0]
            beside = f"'{each[0][0].label}'" if len(each) == 2 else "the other rows"
            found.append(
                f"Held against its other figures, '{name}' of '{run.label}' ({run.beside[name]:g}) is {times(ratio)} "
                f"that of {beside}: is one of its figures wrong?"
            )
    return found


def _ratios(name: str, run: ReportedRun) -> Iterator[float]:
    """Yield how many times its product a column of a row is; nothing where that is not known."""
    above, below = next(((a, b) for words, a, b in PRODUCTS if words.search(name)), ("", ""))
    known = run.solved.known
    powers = [value for other, value in run.beside.items() if POWER.search(other) and other != name]
    over = powers[0] if above == "power" and len(powers) == 1 else known[above].middle if above in known else 0.0
    if below == "a whole time":
        under = 1 / known["seconds"].middle if "seconds" in known and known["seconds"].bounded else 0.0
    else:
        under = known[below].middle if below in known else 0.0
    value = run.beside.get(name, 0.0)
    if over > 0 and under > 0 and value > 0 and math.isfinite(over / under):
        yield value * under / over
