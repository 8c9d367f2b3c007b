"""Rows of a table that sum up the others, `Average` and `Total`: they are no runs."""

from __future__ import annotations

import re
import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from slowstep.audit.figures import figure
from slowstep.audit.read.unknown_columns import is_word
from slowstep.audit.relations import TITLES
from slowstep.settings.reported import Row

MIDDLE = re.compile(r"\W*(?:average|avg|mean|median|overall|geo(?:metric )?mean)s?\W*", re.IGNORECASE)
SUM = re.compile(r"\W*(?:total|sum|overall)s?\W*", re.IGNORECASE)
SPREAD = re.compile(
    r"\W*(?:std|stdev|std\.? ?dev(?:iation)?|standard deviation|std\.? ?err(?:or)?|standard error|sem|cv|95 ?% ?ci)\W*",
    re.IGNORECASE,
)
LEAST = re.compile(r"\W*min(?:imum)?\W*", re.IGNORECASE)
MOST = re.compile(r"\W*max(?:imum)?\W*", re.IGNORECASE)
NAMES = (MIDDLE, SUM, SPREAD, LEAST, MOST)
"""The names of rows that may sum up the others: by a middle, a sum, how far they are apart, and their ends."""

PERCENTILE = re.compile(r"\W*(?:p\d{1,2}(?:\.\d+)?|\d{1,2}(?:st|nd|rd|th)? ?(?:%|perc|pct)\w*)\W*", re.IGNORECASE)
"""The names of rows that each say a percentile of one measurement. What sums them up sums up what they are of."""

UNNAMED = re.compile(r"row \d+(?: .*)?")
"""The label of a row that no column names."""

SMALL = 0.5
"""The share of the smallest figure below which another one may be their spread."""

OFF = 0.02
"""The share by which a figure may be off that sums up others, as authors round in between."""

WHOLE_TIMES = ("seconds", "minutes", "hours", "seconds_per_epoch", "minutes_per_epoch")
"""Figures of all the time that a run took for the work that a summary counts."""

ALIKE, SAME = 1.05, 0.002
"""The ratio up to which figures are so alike that any of them is about their mean, and the share by which a mean of
such figures may be off."""


def without_summaries(rows: Sequence[Row], kept: Collection[str]) -> list[Row]:
    """Return the rows of a table without those that sum up the others, which the first row then tells.

    Such rows stand at the end, are called so, and have a figure that sums up those of the others: a sum, a mean, the
    largest one, or a spread that is small beside them. Beside rows of percentiles, any figure does. Those whose names
    are to be `kept`, as claims are about them, stay.
    """
    of_runs = [i for i, row in enumerate(rows) if not any(_called(row, kind) for kind in NAMES)]
    runs, behind = [rows[i] for i in of_runs], rows[max(of_runs, default=-1) + 1 :]
    left_out = [row for row in behind if row.label not in kept and len(runs) > 1 and _sums_up(row, runs)]
    if not left_out:
        return list(rows)
    names = " and ".join(f"'{row.label}'" for row in left_out)
    told = f"{names} of its table sum{'s' * (len(left_out) == 1)} up the other rows: is it so? No run is made of that"
    asked = [told, *(text for row in left_out if _called(row, SUM) for text in _unlike_all_work(row, runs))]
    first, *others = (row for row in rows if row not in left_out)
    return [replace(first, questions=[*first.questions, *asked]), *others]


def _unlike_all_work(row: Row, runs: Sequence[Row]) -> Iterator[str]:
    """Ask about speeds of all runs that are not all their work in all their time: the mean of speeds is none."""
    timed = next((name for name in WHOLE_TIMES if all(name in run.figures for run in runs)), "")
    times = [_value(run.figures[timed]) for run in runs] if timed else []
    for name in (name for name in row.figures if name.endswith("_per_second")):
        said, speeds = _value(row.figures[name]), [_value(run.figures.get(name)) for run in runs]
        if said is None or None in speeds or not times or None in times or min(times) <= 0:
            continue
        all_work = sum(speed * time for speed, time in zip(speeds, times, strict=True)) / sum(times)
        if abs(said - all_work) > OFF * all_work:
            yield (
                f"'{row.label}' says {said:.4g} {TITLES[name]}, and all the work of the other rows in all their time "
                f"is {all_work:.4g}: is it the mean of their speeds?"
            )


def _called(row: Row, kind: re.Pattern[str]) -> bool:
    """Return whether a row is called so: by its name, or where no column names rows by the first of its words."""
    words = filter(is_word, row.unknown.values())
    return bool(kind.fullmatch(next(words, "") if UNNAMED.fullmatch(row.label) else row.label))


def _sums_up(row: Row, runs: Sequence[Row]) -> bool:
    """Return whether a row with the name of a summary has a figure that sums up those of the others."""
    if any(_called(row, kind) for kind in NAMES) and all(_called(other, PERCENTILE) for other in runs):
        return True
    for name, text in row.figures.items():
        values = [_value(other.figures[name]) for other in runs if name in other.figures]
        said = _value(text)
        if said is None or None in values or len(values) < 2 or min(values) <= 0:
            continue
        if _called(row, SPREAD) and _is_spread(said, values):
            return True
        if any(_called(row, kind) and end(values) == said for kind, end in ((LEAST, min), (MOST, max))):
            return True
        if _called(row, SUM) and abs(sum(values) - said) <= OFF * said:
            return True
        off = OFF if max(values) > ALIKE * min(values) else SAME
        ways = (statistics.fmean, statistics.median, statistics.geometric_mean)
        if _called(row, MIDDLE) and any(abs(way(values) - said) <= off * said for way in ways):
            return True
    return False


def _is_spread(said: float, values: Sequence[float]) -> bool:
    """Return whether a figure is how far others are apart: their deviation, or small beside them."""
    deviations = (statistics.stdev(values), statistics.pstdev(values))
    return said < SMALL * min(values) or any(abs(one - said) <= OFF * said for one in deviations)


def _value(text: object) -> float | None:
    try:
        return figure(text).middle
    except ValueError:
        return None
