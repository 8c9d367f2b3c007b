"""What `budget.minutes` are spent on: the baseline, single hypotheses, what is combined, the reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from slowstep.investigation.results import INTERRUPTED, Measured, NotebookRun, PlanRun, Summary, drawn_at_once
from slowstep.records import ComparisonRecord, Store, identity
from slowstep.settings.sections import BASELINE, SECTIONS

EMPTY: Mapping[str, Summary] = MappingProxyType({})

BASELINE_PART = 0.4
"""The baseline takes no more than it needs after this part of the minutes: hypotheses are to be tried."""

MOST_FOR_ONE, MOST_FOR_COMBINING = 0.1, 0.3
"""The largest part of the minutes that is kept for one comparison, and for all that is combined."""

CONFIRMING_FACTOR = 3
"""A confirming comparison may take this many times as long as the one that supported the change. It goes on until the
size of the effect is known; the first only until an effect is shown."""


def for_hypotheses(measured: Sequence[Measured], to_combine: Sequence[Measured], minutes: float) -> float:
    """Return the part of the minutes that the baseline and single hypotheses may take.

    The rest is kept for combining what is supported. One comparison confirms the combination. Each change beside the
    first takes two more, which compare the combination with it and without it. Each is taken to last as long as the
    longest that supported one of the changes; more is kept for the one that confirms. Time for one comparison, as long
    as the longest yet, is kept in any case, since the last hypothesis may be supported.
    """
    judged = [m for m in measured if m.verdict.effect]
    changes = len({factor.name for m in to_combine for factor, _ in m.contrast.levels})
    one = min(_longest(judged) / (60 * minutes), MOST_FOR_ONE) if judged else MOST_FOR_ONE
    each = _longest(to_combine) / (60 * minutes)
    needed = max((2 * changes - 1) * each, min(CONFIRMING_FACTOR * each, MOST_FOR_ONE))
    return 1 - min(max(one, needed), MOST_FOR_COMBINING)


def _longest(measured: Sequence[Measured]) -> float:
    return max((_took(m.record) for m in measured if m.record), default=0.0)


def _took(record: ComparisonRecord) -> float:
    return max(record.seconds, sum(pair.baseline.seconds + pair.treatment.seconds for pair in record.pairs))


def drawing_seconds(store: Store) -> float:
    """Return the seconds that drawing the reports will take which wait for measurements, judged by the first report."""
    runs = {run.notebook: run for run in store.every(NotebookRun, "notebooks")}
    first, waiting = runs.get(BASELINE.notebook), [run for run in runs.values() if run.status == INTERRUPTED]
    return len(waiting) / drawn_at_once() * first.seconds if first else 0.0


def spent_seconds(store: Store, notebook: str, arm: str, run: str) -> float:
    """Return the seconds in which a notebook's questions on `arm` were measured, and in which its report was drawn.

    `run` stands for the arm in its environment.
    """
    concluded, drawn = store.read(Summary, "summaries", notebook), store.read(NotebookRun, "notebooks", notebook)
    of_other = concluded is not None and concluded.arm != arm  # the report is of that other arm, too
    parts = (spent_on(store, notebook, run), None if of_other else drawn)
    return sum(part.seconds for part in parts if part is not None)


def spent_on(store: Store, notebook: str, run: str) -> PlanRun | None:
    """Return what all calls have spent on a notebook's questions on a run in its environment; None if nothing.

    It stays known where the conclusion is dropped, as a run with other minutes does.
    """
    return store.read(PlanRun, "spent", identity(notebook, run))


def spent_in_all(store: Store, run: str, concluded: Mapping[str, Summary] = EMPTY) -> list[PlanRun | Summary]:
    """Return what all calls have spent on measuring a run in its environment: its plan, and each notebook's questions.

    Earlier versions kept it in the conclusions of the notebooks alone.
    """
    names = dict.fromkeys([*(section.notebook for section in SECTIONS), *concluded])
    own = [spent_on(store, name, run) or concluded.get(name) for name in names]
    return [one for one in (store.read(PlanRun, "plans", run), *own) if one is not None]


def keep_spent(store: Store, notebook: str, run: str, spent: PlanRun) -> None:
    """Keep what all calls have spent on a notebook's questions on a run in its environment."""
    store.write(spent, "spent", identity(notebook, run))
