"""Which of the supported changes to train with, together.

Gains don't add, and changes compete for the same memory. So all combinations of the supported levels are ranked by what
is known of them (measured together where they were, else the product of the single gains), those that the memory can't
hold are left out, and the first few are measured against each other. The winner is then confirmed against the
baseline with pairs of its own, for a winner chosen by noise looks better than it is; and a change that the rest
does not miss is dropped.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slowstep.environment.machine import Machine
from slowstep.factors import CATALOGUE, Arm, Contrast, Factor, Level, Meaning, clash, combine, label
from slowstep.investigation.batch_size import find_batch
from slowstep.investigation.findings import Measured
from slowstep.investigation.lab import Lab
from slowstep.judgement.projection import Projection, project
from slowstep.judgement.verdict import Outcome, Verdict, best_levels, reconsidered
from slowstep.records import ComparisonRecord, Status
from slowstep.settings import LEVEL_SECTIONS, Settings

Pick = tuple[Factor, Level]

CONFIRMED = "final"
"""The family of the comparisons that confirm."""

REACH = math.log(1.1)
"""A combination that is expected to be slower than the best by more is no rival to it."""

FINALISTS = 3
"""Combinations that are measured against each other, at most."""

HEADROOM = 0.95
"""Share of the memory that a combination is expected to fill at most."""

MOST_COMBINATIONS = 4096
"""Beyond so many only the best level of each factor is combined."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What to train with, and what led there."""

    tested: list[Measured]
    """Everything that the parameter file lists, each once."""
    allowed: list[Measured]
    """The supported changes that `allow` permits and that pay in the job, each against the run as it is."""
    duels: list[Measured]
    """The finalists against each other."""
    confirmed: list[Measured]
    """What was measured against the baseline with fresh pairs."""
    chosen: Measured | None
    """The winner, confirmed against the baseline."""
    left_out: list[str]
    settings: Settings
    before: Projection | None
    after: Projection | None

    @property
    def candidates(self) -> list[Verdict]:
        """The best level of each factor that is allowed, largest gain first."""
        return best_levels([m.verdict for m in self.allowed])

    @property
    def verdicts(self) -> list[Verdict]:
        """On everything that was tested, in the light of the confirmation."""
        return reconsidered([m.verdict for m in self.tested], [m.verdict for m in self.confirmed])

    @property
    def adopted(self) -> bool:
        """Whether the combination is to be trained with."""
        return self.chosen is not None and self.chosen.verdict.outcome is Outcome.SUPPORTED

    @property
    def arm(self) -> Arm | None:
        """The adopted one."""
        return self.chosen.contrast.treatment if self.chosen and self.adopted else None

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the combination."""
        return self.chosen.verdict if self.chosen else None


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Levels to train with together, and the gain's logarithm that is expected of them."""

    picks: tuple[Pick, ...]
    gain: float

    @property
    def names(self) -> frozenset[str]:
        """The levels as labels name them."""
        return _names(self.picks)


@dataclass(frozen=True, kw_only=True)
class Known:
    """What was measured of one or several levels together: the gain's logarithm, and bytes more than the baseline."""

    gain: float
    memory: float


def choose(lab: Lab) -> Choice:
    """Search, compare, confirm; a combination that can't be trained gives way to the next."""
    for section in LEVEL_SECTIONS:
        lab.test(section)
    find_batch(lab)
    measured = list({m.verdict.name: m for m in reversed(lab.measured)}.values())[::-1]
    allowed = [_unconditional(lab, m) for m in measured if _supported(m) and _allowed(m, lab.settings)]
    allowed = [m for m in allowed if _supported(m) and _pays(lab, m)]
    duels: list[Measured] = []
    beside = [m for m in measured if m.contrast.given]
    known = [m for m in measured if not m.contrast.given] + allowed
    ranking = ranked(allowed, known, _room(lab), clashes(lab.settings, allowed, lab.machine), beside)
    chosen, left = _winner(lab, ranking, duels)
    if chosen:
        gains = {label(m.contrast.levels): m.verdict.effect.ratio for m in allowed}
        chosen, dropped = _without_passengers(lab, chosen, gains)
        left += dropped
    adopted = chosen is not None and chosen.verdict.outcome is Outcome.SUPPORTED
    settings = chosen.contrast.treatment.settings if adopted else lab.settings
    return Choice(
        tested=measured,
        allowed=allowed,
        duels=duels,
        confirmed=[m for m in lab.measured if m.family == CONFIRMED],
        chosen=chosen,
        left_out=left,
        settings=replace(settings, name=f"{lab.settings.name}_final"),
        before=lab.baseline.projection,
        after=_projected(lab, chosen) if adopted else None,
    )


# -- which combinations --


def ranked(
    allowed: Sequence[Measured],
    measured: Sequence[Measured],
    room: float,
    apart: Sequence[frozenset[str]] = (),
    beside: Sequence[Measured] = (),
) -> list[Candidate]:
    """Combinations of the levels in `allowed` that fit into `room` more bytes than the baseline, most promising first.

    What was `measured` together counts as measured, also where it was not supported. What stands in `apart` (levels as
    labels name them) is not combined. What a level brings `beside` another that both arms had counts where its
    condition is met by the rest of a combination; by itself it brings what it does together with its condition.
    """
    known = {_names(m.contrast.levels): _known(m.record, m.verdict) for m in measured if m.record and m.verdict.effect}
    more = {_names(m.contrast.levels): _known(m.record, m.verdict) for m in beside if m.record and m.verdict.effect}
    too_big = [_names(m.contrast.levels) for m in measured if m.verdict.status is Status.OUT_OF_MEMORY]
    excluded = [*too_big, *apart]
    axes: dict[str, list[Pick]] = {}
    for m in allowed:
        for factor, level in m.contrast.levels:
            axes.setdefault(factor.name, [])
            if not any(level.value == other.value for _, other in axes[factor.name]):
                axes[factor.name].append((factor, level))
    if math.prod(len(levels) + 1 for levels in axes.values()) > MOST_COMBINATIONS:
        top = {label(m.contrast.levels) for m in allowed if len(m.contrast.levels) == 1}
        axes = {name: [p for p in picks if label([p]) in top] for name, picks in axes.items()}
    combinations = [
        tuple(p for p in picks if p)
        for picks in itertools.product(*([None, *levels] for levels in axes.values()))
        if any(picks)
    ]
    combinations = [picks for picks in combinations if not any(part <= _names(picks) for part in excluded)]
    expected = [(_expected(picks, known, more), picks) for picks in combinations]
    fitting = [Candidate(picks=picks, gain=k.gain) for k, picks in expected if k is not None and k.memory <= room]
    return sorted(fitting, key=lambda c: -c.gain)


def _expected(
    picks: Sequence[Pick], known: Mapping[frozenset[str], Known], beside: Mapping[frozenset[str], Known]
) -> Known | None:
    """What the largest parts measured together let expect; None where a level was only seen with others."""
    rest, gain, memory = _names(picks), 0.0, 0.0
    met = {key for _, level in picks for key in level.overrides}
    conditions = {_names([pick]): pick[1].given.keys() for pick in picks}
    for part in sorted(known, key=lambda part: -len(part)):
        if part <= rest:
            given = conditions.get(part, ())
            found = beside[part] if given and part in beside and met >= {*given} else known[part]
            met |= {*given}  # a condition that came with one level is there for the next
            gain, memory, rest = gain + found.gain, memory + found.memory, rest - part
    return None if rest else Known(gain=gain, memory=memory)


def _known(record: ComparisonRecord, verdict: Verdict) -> Known:
    before, after = (t.memory.peak or 0 for t in (record.baseline, record.treatment))
    return Known(gain=verdict.effect.mean, memory=after - before)


def clashes(settings: Settings, allowed: Sequence[Measured], machine: Machine) -> list[frozenset[str]]:
    """The pairs of levels that can't be had together: 16 samples at once, and 4 in each of 2 parts."""
    picks = {label([pick]): pick for m in allowed for pick in m.contrast.levels}
    pairs = itertools.combinations(picks, 2)
    return [frozenset(p) for p in pairs if clash(settings, [picks[name] for name in p], machine)]


def _room(lab: Lab) -> float:
    """Bytes that a combination may take more than the baseline does."""
    memory = lab.baseline.record.baseline.memory
    return math.inf if memory.limit is None else HEADROOM * memory.limit - (memory.peak or 0)


# -- which of them --


def _winner(lab: Lab, ranking: list[Candidate], duels: list[Measured]) -> tuple[Measured | None, list[str]]:
    """The finalist that beats the others, confirmed; with the combinations that could not be trained."""
    failed: list[str] = []
    first: Measured | None = None
    for _ in range(FINALISTS):
        if not ranking:
            break
        champion = _champion(lab, ranking, duels)
        chosen = _confirmed(lab, champion)
        if chosen.verdict.outcome is Outcome.SUPPORTED:
            return chosen, failed
        first = first or chosen
        failed.append(f"{label(champion)} ({chosen.verdict.reason})")
        ranking = [c for c in ranking if not _names(champion) <= c.names]
    return first, failed


def _champion(lab: Lab, ranking: Sequence[Candidate], duels: list[Measured]) -> tuple[Pick, ...]:
    """The first of the ranking, unless another finalist is faster when the two are measured against each other."""
    champion, *challengers = [c.picks for c in finalists(ranking)]
    for picks in challengers:
        one, other = (combine(lab.settings, _whole(p), lab.machine) for p in (champion, picks))
        if one.treatment.settings == other.treatment.settings:
            continue  # a level with its condition, and the same two by their names
        contrast = Contrast(levels=other.levels, against=one.levels, baseline=one.treatment, treatment=other.treatment)
        duel = lab.compare(contrast, f"{label(picks)} against {label(champion)}")
        duels.append(duel)
        told = duel.verdict.outcome in (Outcome.SUPPORTED, Outcome.REFUTED)
        if told and duel.verdict.effect and duel.verdict.effect.low > 1:
            champion = picks
    return champion


def finalists(ranking: Sequence[Candidate]) -> list[Candidate]:
    """The first of the ranking and its real rivals: within reach of it, and no subset of one that ranks before."""
    taken: list[Candidate] = []
    for candidate in ranking:
        near = candidate.gain >= ranking[0].gain - REACH
        if near and len(taken) < FINALISTS and not any(candidate.names < other.names for other in taken):
            taken.append(candidate)
    return taken


def _without_passengers(lab: Lab, chosen: Measured, gains: Mapping[str, float]) -> tuple[Measured, list[str]]:
    """The combination without the changes that the others don't miss, and those; of two that do the same, one stays.

    They are left out one after another, the smallest gain first. Each that goes may be missed a little, so in the end
    the whole must not beat what remains.
    """
    levels = chosen.contrast.levels
    kept, dropped = list(levels), []
    for pick in _passengers(chosen, gains):
        if len(kept) > 1 and not _missed(lab, kept, [pick]):
            kept.remove(pick)
            dropped.append(pick)
    if not dropped or (len(dropped) > 1 and _missed(lab, levels, dropped)):
        return chosen, []
    smaller = _confirmed(lab, kept)
    if smaller.verdict.outcome is not Outcome.SUPPORTED:
        return chosen, []
    return smaller, [label([pick]) for pick in dropped]


def _passengers(chosen: Measured, gains: Mapping[str, float]) -> list[Pick]:
    """The levels that may bring nothing beside the others, the smallest gain first: the combination's interval reaches
    down to what the single gains of the others multiply to."""
    levels, effect = chosen.contrast.levels, chosen.verdict.effect
    single = {pick[0].name: gains.get(label([pick])) for pick in levels}
    whole = None if None in single.values() else math.prod(single.values())

    def may_bring_nothing(pick: Pick) -> bool:
        return whole is None or effect is None or effect.low <= whole / single[pick[0].name]

    return sorted(filter(may_bring_nothing, levels), key=lambda pick: single[pick[0].name] or 1.0)


def _missed(lab: Lab, levels: Sequence[Pick], picks: Sequence[Pick]) -> bool:
    """Whether `picks` may bring something beyond the rest of `levels`, or are what the rest needs."""
    rest = combine(lab.settings, _whole([p for p in levels if p not in picks]), lab.machine)
    whole = combine(lab.settings, _whole(levels), lab.machine)
    if rest.treatment.settings == whole.treatment.settings:
        return True
    contrast = Contrast(levels=_whole(picks), baseline=rest.treatment, treatment=whole.treatment)
    found = lab.compare(contrast, f"{label(picks)} beyond {label(rest.levels)}")
    return found.verdict.outcome is not Outcome.REFUTED


def _confirmed(lab: Lab, picks: Sequence[Pick]) -> Measured:
    """Against the baseline, with pairs that chose nothing."""
    found = lab.judge([combine(lab.settings, _whole(picks), lab.machine)], CONFIRMED, purpose="confirmation")[0]
    return replace(found, contrast=replace(found.contrast, levels=tuple(picks)))


# -- what counts --


def _supported(m: Measured) -> bool:
    return m.verdict.outcome is Outcome.SUPPORTED and m.record is not None


def _allowed(m: Measured, settings: Settings) -> bool:
    permitted = {
        Meaning.EXACT: True,
        Meaning.NUMERICS: settings.allow.numerics,
        Meaning.SEMANTICS: settings.allow.semantics,
        Meaning.DIAGNOSTIC: False,
    }
    never = (CATALOGUE[name] for name in settings.allow.never)
    # by what is changed in the end, not by the name: a mode of compiling compiles
    kept = all(f.current(m.contrast.treatment.settings) == f.current(settings) for f in never)
    return permitted[m.verdict.meaning] and kept


def _pays(lab: Lab, m: Measured) -> bool:
    """Whether the whole job ends sooner with the change: what it costs at the start may never come back."""
    before, after = lab.baseline.projection, _projected(lab, m)
    return before is None or after is None or after.seconds < before.seconds


def _projected(lab: Lab, m: Measured) -> Projection | None:
    return project(m.contrast.treatment.settings, lab.evidence.noise, lab.evidence.events, m.record)


def _whole(picks: Sequence[Pick]) -> tuple[Pick, ...]:
    """The levels with their conditions as part of the change: the final configuration stands against the run as it
    is."""
    said = {key for _, level in picks for key in level.overrides}

    def whole(level: Level) -> Level:
        conditions = {key: value for key, value in level.given.items() if key not in said}
        return replace(level, overrides=conditions | level.overrides, given={})

    return tuple((factor, whole(level)) for factor, level in picks)


def _unconditional(lab: Lab, m: Measured) -> Measured:
    """The change with what it needs, against the run as it is, which is not what `m` compared it with. Its levels stay
    as they are, so that what they need yields to what stands beside them in a combination."""
    if not m.contrast.given:
        return m
    contrast = combine(lab.settings, _whole(m.contrast.levels), lab.machine)
    whole = lab.compare(contrast, f"{contrast.name} with all that it needs")
    return replace(whole, contrast=replace(whole.contrast, levels=m.contrast.levels))


def _names(picks: Sequence[Pick]) -> frozenset[str]:
    return frozenset(label([pick]) for pick in picks)
