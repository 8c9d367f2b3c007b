"""The combinations of changes to consider, and the gains that are expected of them.

Gains don't add, and changes compete for the same memory. So all combinations of the supported levels are ranked by
their expected gain: the measured one of levels that were measured together, else the product of the single gains.
Where the size of the job is known, the gain is that of the whole job, which a late start makes longer. Combinations
that the memory is not expected to hold are left out. What was measured has shown that it fits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slowstep.environment.machine import Machine
from slowstep.factors import Factor, Level, clash, label
from slowstep.final.job import JobTime
from slowstep.investigation.results import Measured
from slowstep.judgement.projection import later_start
from slowstep.judgement.verdict import Verdict
from slowstep.judgement.verdicts_together import best_levels
from slowstep.records import ComparisonRecord, Status
from slowstep.settings import Settings

Pick = tuple[Factor, Level]
"""A factor and the level of it that is chosen."""

REACH = math.log(1.1)
"""The log-ratio by which a rival of the best combination may be expected to be slower, at the most."""

FINALISTS = 3
"""The most combinations that are measured against each other."""

MOST_COMBINATIONS = 4096
"""The most combinations of all levels. Where there are more, only the best level of each factor is combined."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Levels to train with together, and the gain that is expected of them, as a log-ratio."""

    picks: tuple[Pick, ...]
    gain: float
    """The gain of the whole job where its size is known, else of a step."""
    later: float = 0.0
    """The seconds by which their job starts later than the run's own."""

    @property
    def names(self) -> frozenset[str]:
        """The levels as labels name them."""
        return names_of(self.picks)


@dataclass(frozen=True, kw_only=True)
class Known:
    """The measured gain of one or several levels together, as a log-ratio, and what they cost beyond the baseline."""

    gain: float
    memory: float
    """Bytes at the peak."""
    later: float
    """Seconds of the start."""


def ranked(
    allowed: Sequence[Measured],
    measured: Sequence[Measured],
    room: float,
    apart: Sequence[frozenset[str]] = (),
    beside: Sequence[Measured] = (),
    job: JobTime | None = None,
) -> list[Candidate]:
    """Return the combinations of the levels in `allowed` that fit into `room`, the most promising first.

    `room` is in bytes beyond the baseline's. What was `measured` together counts as measured, also where it was not
    supported, or where a part of it did not fit alone. The levels in a set of `apart` (as labels name them) are not
    combined. `beside` holds what levels bring beside a condition that both arms had. That counts where the rest of a
    combination meets the condition; else a level brings what it does together with its condition. `job` is the run's
    own; None if its size is not known.
    """
    known, more = (_all_known(found) for found in (measured, beside))
    too_big = [names_of(m.contrast.levels) for m in measured if m.verdict.status is Status.OUT_OF_MEMORY]
    axes: dict[str, list[Pick]] = {}
    for m in allowed:
        for factor, level in m.contrast.levels:
            axes.setdefault(factor.name, [])
            if not any(level.value == other.value for _, other in axes[factor.name]):
                axes[factor.name].append((factor, level))
    if math.prod(len(levels) + 1 for levels in axes.values()) > MOST_COMBINATIONS:
        best = {v.name for v in best_levels([m.verdict for m in allowed])}
        top = {label(m.contrast.levels) for m in allowed if m.verdict.name in best}
        axes = {name: [p for p in picks if label([p]) in top] for name, picks in axes.items()}
    combinations = [
        tuple(p for p in picks if p)
        for picks in itertools.product(*([None, *levels] for levels in axes.values()))
        if any(picks)
    ]
    fitting = []
    for picks in combinations:
        names, found = names_of(picks), _expected(picks, known, more)
        shown = [one for one in known if one <= names]
        too_large = any(part <= names and not any(part < one for one in shown) for part in too_big)
        if found is None or too_large or any(part <= names for part in apart):
            continue
        if found.memory <= room or names in known:
            gain = job.gain(found.gain, found.later) if job else found.gain
            fitting.append(Candidate(picks=picks, gain=gain, later=found.later))
    return sorted(fitting, key=lambda c: -c.gain)


def _expected(
    picks: Sequence[Pick], known: Mapping[frozenset[str], Known], beside: Mapping[frozenset[str], Known]
) -> Known | None:
    """Return the sum of the largest parts that were measured together; None if they do not cover all of `picks`."""
    rest, gain, memory, later = names_of(picks), 0.0, 0.0, 0.0
    met = {key for _, level in picks for key in level.changes}
    conditions = {names_of([pick]): pick[1].held_constant.keys() for pick in picks}
    for part in sorted(known, key=lambda part: -len(part)):
        if part <= rest:
            given = conditions.get(part, ())
            found = beside[part] if given and part in beside and met >= {*given} else known[part]
            met |= {*given}  # a condition that came with one level is there for the next
            gain, memory, later = gain + found.gain, memory + found.memory, later + found.later
            rest = rest - part
    return None if rest else Known(gain=gain, memory=memory, later=later)


def _all_known(measured: Sequence[Measured]) -> dict[frozenset[str], Known]:
    """Return the measured gains and costs, by the names of the levels."""
    return {names_of(m.contrast.levels): _known(m.record, m.verdict) for m in measured if m.record and m.verdict.effect}


def _known(record: ComparisonRecord, verdict: Verdict) -> Known:
    before, after = (t.memory.peak or 0 for t in (record.baseline, record.treatment))
    return Known(gain=verdict.effect.mean, memory=after - before, later=later_start(record))


def clashes(settings: Settings, allowed: Sequence[Measured], machine: Machine) -> list[frozenset[str]]:
    """Return the pairs of levels that can't be had together: 16 samples at once, and 4 in each of 2 parts."""
    picks = {label([pick]): pick for m in allowed for pick in m.contrast.levels}
    pairs = itertools.combinations(picks, 2)
    return [frozenset(p) for p in pairs if clash(settings, [picks[name] for name in p], machine)]


def finalists(ranking: Sequence[Candidate]) -> list[Candidate]:
    """Return the first of the ranking and its rivals, which are within `REACH` and no subset of one ranked before."""
    taken: list[Candidate] = []
    for candidate in ranking:
        near = candidate.gain >= ranking[0].gain - REACH
        if near and len(taken) < FINALISTS and not any(candidate.names < other.names for other in taken):
            taken.append(candidate)
    return taken


def with_conditions(picks: Sequence[Pick]) -> tuple[Pick, ...]:
    """Return the levels with their conditions as part of the change, to be compared with the run as it is."""
    said = {key for _, level in picks for key in level.overrides}

    def whole(level: Level) -> Level:
        conditions = {key: value for key, value in level.held_constant.items() if key not in said}
        return replace(level, overrides=conditions | level.overrides, held_constant={})

    return tuple((factor, whole(level)) for factor, level in picks)


def names_of(picks: Sequence[Pick]) -> frozenset[str]:
    """Return the levels as labels name them."""
    return frozenset(label([pick]) for pick in picks)
