"""Values that are ten times those beside them in a series. They are more often a wrong unit or a slip than a speed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from slowstep.audit.figures import Figure, exact
from slowstep.audit.findings import Finding, FindingKind, times
from slowstep.audit.relations import TITLES
from slowstep.audit.run import BESIDE, ReportedRun
from slowstep.audit.subjects import other_subject, unread_difference

SERIES = (
    "seconds_per_step",
    "steps_per_second",
    "seconds_per_sample",
    "samples_per_second",
    "tokens_per_second",
    "samples_per_second_per_device",
    "tokens_per_second_per_device",
    "seconds_per_epoch",
    "mfu",
    "hfu",
    "tflops_per_device",
    "memory_allocated_gib",
    "memory_reserved_gib",
    "memory_used_gib",
)
"""Figures that vary little from one setting to the next."""

COUNTS_MORE_EQUAL_WORK = dict.fromkeys(
    ("seconds_per_step", "steps_per_second"), ("samples_per_second", "tokens_per_second")
) | dict.fromkeys(("seconds_per_sample", "samples_per_second"), ("tokens_per_second",))
"""Figures that count more equal work than another one does, by that one."""

LARGER_WITH = {
    "seconds_per_sample": ("samples_per_step", "devices"),
    "samples_per_second": ("samples_per_step", "devices"),
    "tokens_per_second": ("samples_per_step", "tokens_per_step", "devices"),
    "samples_per_second_per_device": ("samples_per_step",),
    "tokens_per_second_per_device": ("samples_per_step", "tokens_per_step"),
}
"""Speeds, with what makes them faster: a step of one sample is slow for each of them, and many devices are fast."""

SLOWER_IF_LONGER = ("seconds_per_step", "steps_per_second", "seconds_per_sample", "samples_per_second")
"""Figures that the length of samples makes slower."""

SOME = 3.0
"""The ratio from which on what makes a speed faster is far from that of its neighbours."""

FAR = 8.0
"""The ratio from which on a value is far from its neighbours: ten times, with room for real differences."""

ALIKE = 3.0
"""The ratio beyond which two neighbours say nothing about the value between them."""

LARGE = FAR * ALIKE
"""The ratio up to which another model or device is reason enough. Beyond, a confusion of units is as probable."""

HUGE = 100.0
"""The ratio from which on another model or device is no reason by itself."""

CLEARLY = 2.0
"""The ratio from which on a repeat is clearly apart from others that are close together."""

CLOSE = 1.2
"""The ratio up to which repeats are close together."""

SLIPS = {
    60.0: "minutes and seconds",
    100.0: "a share and its percentage",
    1000.0: "a unit and its thousandth",
    3600.0: "hours and seconds",
}
"""The probable confusion, by the ratio of the values."""


MADE_OF = {"tokens_per_sample": "tokens_per_second", "samples_per_step": "samples_per_second"}
"""What is the same in all rows of many tables, each with the speed that it follows from."""

SAME = 0.02
"""The share by which such a size may differ by rounding."""

OF_TIME = (60.0, 3600.0)
"""The ratios of units of time."""


def unlike_neighbours(runs: Sequence[ReportedRun]) -> list[Finding]:
    """Find each figure of a measured row that is far from the rows beside it, if these agree with each other.

    Where a step of the row is as many times larger, its time is no slip. The same holds for the steps a second. Nor is
    a figure one that another model or device may be why of, or a column that was not read.
    """
    found = []
    for quantity in SERIES:
        for row, beside, odd in _odd_ones(runs, quantity):
            found += [] if _why(row, beside, odd) else [_finding(row, quantity, beside, odd)]
        found += [f for r in runs if r.measured for f in _among_repeats(r, quantity)]
    told = {f.where for f in found}
    return found + [f for f in _decimal_points(runs) if f.where not in told]


def _decimal_points(runs: Sequence[ReportedRun]) -> list[Finding]:
    """Find a row whose figures make a step or a sample 10, 100 or 1000 times as large as those of all others do."""
    found = []
    for quantity, speed in MADE_OF.items():
        each = [(r, r.solved.known.get(quantity)) for r in runs if r.measured and quantity not in r.given]
        sizes = [(r, size) for r, size in each if size and size.bounded and speed in r.given]
        usual = statistics.median(size.middle for _, size in sizes) if len(sizes) > 2 else 0.0
        odd = [(r, size) for r, size in sizes if usual and size.gap(exact(usual)) > SAME]
        if len(odd) != 1:
            continue
        (run, size), ratio = odd[0], odd[0][1].middle / usual
        power = round(math.log10(ratio))
        if power and abs(ratio / 10.0**power - 1) < SAME:
            text = f"by its figures it has {size} {TITLES[quantity]}, and each other row has {exact(usual)}"
            why = ": is a decimal point in the wrong place?"
            found.append(Finding(kind=FindingKind.NEIGHBOURS, where=run.label, text=text + why))
    return found


def unlike_for_a_reason(runs: Sequence[ReportedRun]) -> list[str]:
    """Ask about figures that are far from the rows beside theirs, where what was not read may be why."""
    asked = {}
    for quantity in SERIES:
        for row, beside, odd in _odd_ones(runs, quantity):
            if why := _why(row, beside, odd):
                said = f"'{row.label}' has {row.given[quantity]} {_title(quantity)}"
                text = f"{said}, {_more_or_less(odd)} in the rows beside it"
                text += f": is it by its {why}, or by another unit or decimal point?"
                asked.setdefault(row.label, text)
    return [*asked.values()]


def _odd_ones(runs: Sequence[ReportedRun], quantity: str) -> Iterator[tuple[ReportedRun, list[ReportedRun], float]]:
    """Yield each row whose figure is far from the rows beside it, with these and with how many times it is theirs."""
    rows = [r for r in runs if r.measured and quantity in r.given and r.given[quantity].bounded]
    rows = [r for r in rows if quantity not in r.open_figures]
    for row, beside in _with_neighbours(rows):
        odd = _times_neighbours(row.given[quantity].middle, [r.given[quantity].middle for r in beside])
        of_another = 1 / LARGE < odd < LARGE and other_subject(row, beside)
        if odd and not of_another and not _explained(quantity, row, beside):
            yield row, beside, odd


def _why(row: ReportedRun, beside: Sequence[ReportedRun], odd: float) -> str:
    """Return what may be why a figure is `odd` times its neighbours: what differs in the row; or nothing."""
    another = 1 / HUGE < odd < HUGE and other_subject(row, beside)
    return unread_difference(row, beside) or ("model, device or data" if another else "")


def _with_neighbours(rows: Sequence[ReportedRun]) -> list[tuple[ReportedRun, list[ReportedRun]]]:
    """Return each row with the ones before and after it; the first and the last row with the two nearest ones."""
    if len(rows) < 3:
        return []
    last = len(rows) - 1
    places = {0: (1, 2), last: (last - 1, last - 2)}
    return [(row, [rows[j] for j in places.get(i, (i - 1, i + 1))]) for i, row in enumerate(rows)]


def _times_neighbours(value: float, beside: Sequence[float]) -> float:
    """Return how many times its neighbours a value is; 0 where it is not far from them, or where they differ."""
    low, high = min(beside), max(beside)
    if low <= 0 or high / low > ALIKE:
        return 0.0
    middle = math.sqrt(low * high)
    return value / middle if value >= FAR * high or value <= low / FAR else 0.0


def _explained(quantity: str, row: ReportedRun, beside: Sequence[ReportedRun]) -> bool:
    """Return whether a figure of more equal work, such as samples/s, is near its neighbours: then this is no slip."""
    for work in COUNTS_MORE_EQUAL_WORK.get(quantity, ()):
        known = [f for r in (row, *beside) if (f := r.solved.known.get(work)) and f.bounded]
        if len(known) > len(beside) and not _times_neighbours(known[0].middle, [f.middle for f in known[1:]]):
            return True
    rows, is_time = (row, *beside), quantity.startswith("seconds")  # the more of them, the slower
    causes = ([r.solved.known.get(cause) for r in rows] for cause in LARGER_WITH.get(quantity, ()))
    if any(_goes_with(quantity, rows, cause, is_time) for cause in causes):
        return True
    lengths = [exact(r.length) if r.length else None for r in rows]
    return quantity in SLOWER_IF_LONGER and _goes_with(quantity, rows, lengths, not is_time)


def _goes_with(quantity: str, rows: Sequence[ReportedRun], causes: Sequence[Figure | None], product: bool) -> bool:
    """Return whether the figure of the first row is no longer far from the others by what makes it larger or smaller.

    Each is divided by its cause, or is multiplied by it if their `product` stays the same.
    """
    each = [(r.given[quantity], cause) for r, cause in zip(rows, causes, strict=True)]
    if not all(of and of.bounded and of.middle > 0 for _, of in each):
        return False
    own_cause, *other_causes = (of.middle for _, of in each)
    if not (min(other_causes) >= SOME * own_cause or own_cause >= SOME * max(other_causes)):
        return False
    own, *others = (speed.middle * of.middle if product else speed.middle / of.middle for speed, of in each)
    return max(others) <= ALIKE * min(others) and not _times_neighbours(own, others)


def _among_repeats(row: ReportedRun, quantity: str) -> list[Finding]:
    """Find a repeat that is far from the others of the same row, or clearly apart where these are close together."""
    values = row.repeats.get(quantity, [])
    ordered = sorted(values)
    for value, others in ((ordered[-1], ordered[:-1]), (ordered[0], ordered[1:])) if len(values) > 2 else ():
        odd = _times_neighbours(value, others)
        close = len(others) > 2 and others[-1] <= CLOSE * others[0]
        apart = value / statistics.median(others) if close and value > 0 else 0.0
        if not odd and not (apart >= CLEARLY or 0 < apart <= 1 / CLEARLY):
            continue
        text = f"one repeat is {value:.4g} {_title(quantity)}, {_more_or_less(odd or apart)} the others"
        why = _slip(odd, quantity) if odd else ": was it disturbed, or is it of another run?"
        return [Finding(kind=FindingKind.NEIGHBOURS, where=row.label, text=text + why)]
    return []


def _finding(row: ReportedRun, quantity: str, beside: Sequence[ReportedRun], odd: float) -> Finding:
    values = " and ".join(str(r.given[quantity]) for r in beside)
    text = f"{row.given[quantity]} {_title(quantity)} is {_more_or_less(odd)} in the rows beside it ({values})"
    return Finding(kind=FindingKind.NEIGHBOURS, where=row.label, text=text + _slip(odd, quantity))


def _title(quantity: str) -> str:
    return (TITLES | BESIDE)[quantity]


def _more_or_less(odd: float) -> str:
    return f"{times(odd)} more than" if odd > 1 else f"{times(1 / odd)} less than"


def _slip(odd: float, quantity: str) -> str:
    """Return a question about the probable confusion. Only times and speeds can have another unit of time."""
    far, timed = max(odd, 1 / odd), "second" in quantity
    slips = {factor: what for factor, what in SLIPS.items() if timed or factor not in OF_TIME}
    near = next((what for factor, what in slips.items() if 0.6 < far / factor < 1.6), "")
    return f": were {near} confused?" if near else ": another unit, or a decimal point in the wrong place?"
