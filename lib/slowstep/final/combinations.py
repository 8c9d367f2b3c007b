"""The combinations of changes to consider, and the gains that are expected of them.

Gains don't add, and changes compete for the same memory. So all combinations of the supported levels are ranked by
their expected gain: the measured one of levels that were measured together, else the product of the single gains.
Where the size of the job is known, the gain is that of the whole job, which a late start makes longer. Combinations
that the memory is not expected to hold are left out. What was measured has shown that it fits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
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

RIVAL_MARGIN = math.log(1.1)
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
class MeasuredGain:
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
    clashing: Sequence[frozenset[str]] = (),
    conditional: Sequence[Measured] = (),
    job: JobTime | None = None,
) -> list[Candidate]:
    """Return the combinations of the levels in `allowed` that fit into `room`, the most promising first.

    `room` is in bytes beyond the baseline's. What was `measured` together counts as measured, also where it was not
    supported, or where a part of it did not fit alone. The levels in a set of `clashing` (as labels name them) are not
    combined. `conditional` holds what levels bring beside a condition that both arms had. That counts where the rest of
    a combination meets the condition; else a level brings what it does together with its condition. `job` is the run's
    own; None if its size is not known.
    """
    known, of_conditional = _measured_gains(measured), _measured_gains(conditional)
    too_big = [names_of(m.contrast.levels) for m in measured if m.verdict.status is Status.OUT_OF_MEMORY]
    fitting = []
    for picks in _combinations(allowed):
        names, expected = names_of(picks), _expected(picks, known, of_conditional)
        if expected is None or any(part <= names for part in clashing) or _is_too_big(names, known, too_big):
            continue
        if expected.memory <= room or names in known:
            gain = job.gain(expected.gain, expected.later) if job else expected.gain
            fitting.append(Candidate(picks=picks, gain=gain, later=expected.later))
    return sorted(fitting, key=lambda c: -c.gain)


def _combinations(allowed: Sequence[Measured]) -> list[tuple[Pick, ...]]:
    """Return all combinations of the levels in `allowed`, with one level at most of each factor.

    Where there are more than `MOST_COMBINATIONS`, only the best level of each factor is combined.
    """
    levels = _levels_by_factor(allowed)
    if math.prod(len(picks) + 1 for picks in levels.values()) > MOST_COMBINATIONS:
        best = {v.name for v in best_levels([m.verdict for m in allowed])}
        top = {label(m.contrast.levels) for m in allowed if m.verdict.name in best}
        levels = {name: [p for p in picks if label([p]) in top] for name, picks in levels.items()}
    every = itertools.product(*([None, *picks] for picks in levels.values()))
    return [tuple(filter(None, picks)) for picks in every if any(picks)]


def _levels_by_factor(allowed: Sequence[Measured]) -> dict[str, list[Pick]]:
    """Return the levels of each factor that some allowed change holds, each value once."""
    found: dict[str, list[Pick]] = {}
    for factor, level in (pick for m in allowed for pick in m.contrast.levels):
        picks = found.setdefault(factor.name, [])
        if not any(level.value == other.value for _, other in picks):
            picks.append((factor, level))
    return found


def _is_too_big(names: frozenset[str], known: Collection[frozenset[str]], too_big: Sequence[frozenset[str]]) -> bool:
    """Return whether a part of a combination ran out of memory, and no larger part was measured that holds it."""
    measured = [one for one in known if one <= names]
    return any(part <= names and not any(part < one for one in measured) for part in too_big)


def _expected(
    picks: Sequence[Pick],
    known: Mapping[frozenset[str], MeasuredGain],
    conditional: Mapping[frozenset[str], MeasuredGain],
) -> MeasuredGain | None:
    """Return the sum of the largest parts that were measured together; None if they do not cover all of `picks`."""
    rest, gain, memory, later = names_of(picks), 0.0, 0.0, 0.0
    met = {key for _, level in picks for key in level.changes}
    conditions = {names_of([pick]): pick[1].held_constant.keys() for pick in picks}
    for part in sorted(known, key=lambda part: -len(part)):
        if part <= rest:
            held = conditions.get(part, ())
            found = conditional[part] if held and part in conditional and met >= {*held} else known[part]
            met |= {*held}  # a condition that came with one level is there for the next
            gain, memory, later = gain + found.gain, memory + found.memory, later + found.later
            rest = rest - part
    return None if rest else MeasuredGain(gain=gain, memory=memory, later=later)


def _measured_gains(measured: Sequence[Measured]) -> dict[frozenset[str], MeasuredGain]:
    """Return the measured gains and costs, by the names of the levels."""
    return {
        names_of(m.contrast.levels): _measured_gain(m.record, m.verdict)
        for m in measured
        if m.record and m.verdict.effect
    }


def _measured_gain(record: ComparisonRecord, verdict: Verdict) -> MeasuredGain:
    before, after = (t.memory.peak or 0 for t in (record.baseline, record.treatment))
    return MeasuredGain(gain=verdict.effect.mean, memory=after - before, later=later_start(record))


def clashes(settings: Settings, allowed: Sequence[Measured], machine: Machine) -> list[frozenset[str]]:
    """Return the pairs of levels that can't be had together: 16 samples at once, and 4 in each of 2 parts."""
    picks = {label([pick]): pick for m in allowed for pick in m.contrast.levels}
    pairs = itertools.combinations(picks, 2)
    return [frozenset(p) for p in pairs if clash(settings, [picks[name] for name in p], machine)]


def finalists(ranking: Sequence[Candidate]) -> list[Candidate]:
    """Return the first of the ranking and its rivals: within `RIVAL_MARGIN`, and no subset of one ranked before."""
    taken: list[Candidate] = []
    for candidate in ranking:
        near = candidate.gain >= ranking[0].gain - RIVAL_MARGIN
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
