"""What `budget.minutes` are spent on: the baseline, single hypotheses, what is combined, the reports."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.investigation.results import INTERRUPTED, Measured, NotebookRun, Summary, drawn_at_once
from slowstep.records import ComparisonRecord, Store
from slowstep.settings.sections import BASELINE

OF_BASELINE = 0.4
"""The part of the minutes after which the baseline takes no more than it needs: hypotheses are to be tried."""

COMBINING = (0.1, 0.3)
"""The largest part of the minutes that is kept for what is combined: while nothing is to be combined, and at all."""


def for_hypotheses(measured: Sequence[Measured], to_combine: Sequence[Measured], minutes: float) -> float:
    """Return the part of the minutes that the baseline and single hypotheses may take.

    What combining takes is kept: one comparison confirms, and each change beside the first takes two more, which hold
    it against the rest and leave it out. Each takes as long as the longest that supported one of the changes. While
    nothing is to be combined, one comparison is kept, as long as the longest yet: the last one may support its change.
    """
    nothing, most = COMBINING
    changes = len({factor.name for m in to_combine for factor, _ in m.contrast.levels})
    one = _longest(measured) / (60 * minutes) if measured else nothing
    needed = (2 * changes - 1) * _longest(to_combine) / (60 * minutes)
    return 1 - min(max(min(one, nothing), needed), most)


def _longest(measured: Sequence[Measured]) -> float:
    return max((_took(m.record) for m in measured if m.record), default=0.0)


def _took(record: ComparisonRecord) -> float:
    return max(record.seconds, sum(pair.baseline.seconds + pair.treatment.seconds for pair in record.pairs))


def drawing(store: Store) -> float:
    """Return the seconds that the reports which wait for their measurements will take, as the first one did."""
    runs = {run.notebook: run for run in store.every(NotebookRun, "notebooks")}
    first, waiting = runs.get(BASELINE.notebook), [run for run in runs.values() if run.status == INTERRUPTED]
    return len(waiting) / drawn_at_once() * first.seconds if first else 0.0


def took(store: Store, notebook: str) -> float:
    """Return the seconds in which a notebook's questions were measured, and in which its report was drawn."""
    measured, drawn = store.read(Summary, "summaries", notebook), store.read(NotebookRun, "notebooks", notebook)
    return (measured.seconds if measured else 0.0) + (drawn.seconds if drawn else 0.0)
