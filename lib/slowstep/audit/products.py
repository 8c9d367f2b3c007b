"""Columns that were not read and are products of other figures by their names: energy, costs of samples, device-days.

Their units need not be known. Whatever they are, such a column is as many times the product in each row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from statistics import median

from slowstep.audit.findings import times
from slowstep.audit.run import ReportedRun

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

OFF = 0.05
"""The share by which such a product may be off in one row beside another one."""


def unlike_products(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about rows in which such a column is another number of times its product than in the other rows."""
    found = []
    for name in dict.fromkeys(name for run in runs if run.measured for name in run.beside):
        each = [(run, ratio) for run in runs if run.measured for ratio in _ratios(name, run)]
        usual = median(ratio for _, ratio in each) if len(each) > 2 else each[0][1] if each else 0.0
        odd = [(run, ratio / usual) for run, ratio in each if abs(ratio / usual - 1) > OFF]
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
