"""The choice of supported changes to train with, together.

Gains don't add, and changes compete for the same memory. So the choice has three steps:

- All combinations of the supported levels are ranked by what is known of them: their gain where they were measured
  together, else the product of the single gains. Combinations that the memory can't hold are left out.
- The first few are measured against each other, in head-to-head comparisons (`duels`).
- The winner is confirmed against the baseline with pairs of its own, since a winner chosen by noise looks better than
  it is. A redundant change (a `passenger`), which the rest does not need, is dropped.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slowstep.batch_size import find_batch
from slowstep.factors import CATALOGUE, Arm, Contrast, Factor, Level, Meaning, clash, combine, label
from slowstep.investigation import Investigation
from slowstep.judgement.projection import Projection, project
from slowstep.judgement.verdict import Outcome, Verdict, best_levels, reconsidered
from slowstep.machine import Machine
from slowstep.records import Status
from slowstep.settings import LEVEL_SECTIONS, Settings
from slowstep.summary import Measured

Pick = tuple[Factor, Level]

CONFIRMED = "final"
"""The comparison family of the comparisons that confirm."""

REACH = math.log(1.1)
"""The log-ratio by which a finalist may be expected to be slower than the best combination, at most."""

FINALISTS = 3
"""The most combinations that are measured against each other."""

HEADROOM = 0.95
"""The largest share of the memory that a combination may be expected to fill."""

MOST_COMBINATIONS = 4096
"""The most combinations that are ranked. If there are more, only the best level of each factor is combined."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The combination to train with, and what led to it."""

    tested: list[Measured]
    """Everything that the parameter file lists, each once."""
    allowed: list[Measured]
    """The supported changes that `allow` permits and that pay in the job, each against the run as it is."""
    duels: list[Measured]
    """The head-to-head comparisons of the finalists."""
    confirmed: list[Measured]
    """Combinations that were measured against the baseline with fresh pairs."""
    chosen: Measured | None
    """The winner, confirmed against the baseline; None if nothing could be combined."""
    left_out: list[str]
    """Levels that were redundant, and combinations that were not confirmed, in words."""
    settings: Settings
    """The final configuration: that of the winner if it is adopted, else the run's own."""
    before: Projection | None
    after: Projection | None

    @property
    def candidates(self) -> list[Verdict]:
        """Return the verdict on the best level of each factor that is allowed, largest gain first."""
        return best_levels([m.verdict for m in self.allowed])

    @property
    def verdicts(self) -> list[Verdict]:
        """Return the verdicts on everything that was tested, corrected by the confirmation."""
        return reconsidered([m.verdict for m in self.tested], [m.verdict for m in self.confirmed])

    @property
    def adopted(self) -> bool:
        """Return whether to train with the combination."""
        return self.chosen is not None and self.chosen.verdict.outcome is Outcome.SUPPORTED

    @property
    def arm(self) -> Arm | None:
        """Return the arm of the adopted combination; None if none is adopted."""
        return self.chosen.contrast.treatment if self.chosen and self.adopted else None

    @property
    def verdict(self) -> Verdict | None:
        """Return the verdict on the combination; None if there is none."""
        return self.chosen.verdict if self.chosen else None


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Levels to train with together, and their expected gain as a log-ratio."""

    picks: tuple[Pick, ...]
    gain: float

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the levels in labels."""
        return _names(self.picks)


@dataclass(frozen=True, kw_only=True)
class Known:
    """The gain of some levels together as a log-ratio, and the bytes that they take more than the baseline."""

    gain: float
    memory: float


def choose(inv: Investigation) -> Choice:
    """Search the combinations, compare the best of them, and confirm the winner.

    If a combination can't be trained, the next one takes its place.
    """
    for section in LEVEL_SECTIONS:
        inv.test(section)
    find_batch(inv)
    measured = list({m.verdict.name: m for m in reversed(inv.measured)}.values())[::-1]
    allowed = [_unconditional(inv, m) for m in measured if _supported(m) and _allowed(m, inv.settings)]
    allowed = [m for m in allowed if _supported(m) and _pays(inv, m)]
    duels: list[Measured] = []
    beside = [m for m in measured if m.contrast.given]
    known = [m for m in measured if not m.contrast.given] + allowed
    ranking = ranked(allowed, known, _room(inv), clashes(inv.settings, allowed, inv.machine), beside)
    chosen, left = _winner(inv, ranking, duels)
    if chosen:
        gains = {label(m.contrast.levels): m.verdict.effect.ratio for m in allowed}
        chosen, dropped = _without_passengers(inv, chosen, gains)
        left += dropped
    adopted = chosen is not None and chosen.verdict.outcome is Outcome.SUPPORTED
    settings = chosen.contrast.treatment.settings if adopted else inv.settings
    return Choice(
        tested=measured,
        allowed=allowed,
        duels=duels,
        confirmed=[m for m in inv.measured if m.family == CONFIRMED],
        chosen=chosen,
        left_out=left,
        settings=replace(settings, name=f"{inv.settings.name}_final"),
        before=inv.baseline.projection,
        after=_projected(inv, chosen) if adopted else None,
    )


# -- the ranking of combinations --


def ranked(
    allowed: Sequence[Measured],
    measured: Sequence[Measured],
    room: float,
    apart: Sequence[frozenset[str]] = (),
    beside: Sequence[Measured] = (),
) -> list[Candidate]:
    """Return the combinations of levels in `allowed` that fit into `room` more bytes than the baseline, best first.

    Levels that were `measured` together count as measured, even if they were not supported. Levels in `apart` (by their
    names in labels) are not combined. Some levels exist only `beside` a condition that both arms had. Their gain beside
    it counts where the rest of a combination meets the condition; else the gain together with the condition counts.
    """
    known = {_names(m.contrast.levels): _as_known(m) for m in measured if m.record and m.verdict.effect}
    more = {_names(m.contrast.levels): _as_known(m) for m in beside if m.record and m.verdict.effect}
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
    """Return the expected gain from the largest parts that were measured together.

    None where a level was measured only together with others.
    """
    rest, gain, memory = _names(picks), 0.0, 0.0
    met = {key for _, level in picks for key in level.overrides}
    conditions = {_names([pick]): pick[1].given.keys() for pick in picks}
    for part in sorted(known, key=lambda part: -len(part)):
        if part <= rest:
            given = conditions.get(part, ())
            found = beside[part] if given and part in beside and met >= {*given} else known[part]
            met |= {*given}  # a condition that one level brought is met for the next
            gain, memory, rest = gain + found.gain, memory + found.memory, rest - part
    return None if rest else Known(gain=gain, memory=memory)


def _as_known(m: Measured) -> Known:
    before, after = (t.memory.peak or 0 for t in (m.record.baseline, m.record.treatment))
    return Known(gain=m.verdict.effect.mean, memory=after - before)


def clashes(settings: Settings, allowed: Sequence[Measured], machine: Machine) -> list[frozenset[str]]:
    """Return the pairs of levels that can't be had together: 16 samples at once, and 4 in each of 2 parts."""
    picks = {label([pick]): pick for m in allowed for pick in m.contrast.levels}
    pairs = itertools.combinations(picks, 2)
    return [frozenset(p) for p in pairs if clash(settings, [picks[name] for name in p], machine)]


def _room(inv: Investigation) -> float:
    """Return the bytes that a combination may take more than the baseline does; infinite without a known limit."""
    memory = inv.baseline.record.baseline.memory
    return math.inf if memory.limit is None else HEADROOM * memory.limit - (memory.peak or 0)


# -- the choice among them --


def _winner(inv: Investigation, ranking: list[Candidate], duels: list[Measured]) -> tuple[Measured | None, list[str]]:
    """Return the confirmed finalist that beats the others, and the combinations that were not confirmed, in words."""
    failed: list[str] = []
    first: Measured | None = None
    for _ in range(FINALISTS):
        if not ranking:
            break
        champion = _champion(inv, ranking, duels)
        chosen = _confirmed(inv, champion)
        if chosen.verdict.outcome is Outcome.SUPPORTED:
            return chosen, failed
        first = first or chosen
        failed.append(f"{label(champion)} ({chosen.verdict.reason})")
        ranking = [c for c in ranking if not _names(champion) <= c.names]
    return first, failed


def _champion(inv: Investigation, ranking: Sequence[Candidate], duels: list[Measured]) -> tuple[Pick, ...]:
    """Return the first of the ranking, unless another finalist is faster when both are measured against each other."""
    champion, *challengers = [c.picks for c in finalists(ranking)]
    for picks in challengers:
        one, other = (combine(inv.settings, _with_conditions(p), inv.machine) for p in (champion, picks))
        if one.treatment.settings == other.treatment.settings:
            continue  # one names a level that brings its condition, and the other names both
        contrast = Contrast(levels=other.levels, against=one.levels, baseline=one.treatment, treatment=other.treatment)
        duel = inv.compare(contrast, f"{label(picks)} against {label(champion)}")
        duels.append(duel)
        decided = duel.verdict.outcome in (Outcome.SUPPORTED, Outcome.REFUTED)
        if decided and duel.verdict.effect and duel.verdict.effect.low > 1:
            champion = picks
    return champion


def finalists(ranking: Sequence[Candidate]) -> list[Candidate]:
    """Return the first of the ranking and its real rivals.

    A rival is expected to be within `REACH` of the first, and is no subset of a combination that ranks before it.
    """
    taken: list[Candidate] = []
    for candidate in ranking:
        near = candidate.gain >= ranking[0].gain - REACH
        if near and len(taken) < FINALISTS and not any(candidate.names < other.names for other in taken):
            taken.append(candidate)
    return taken


def _without_passengers(inv: Investigation, chosen: Measured, gains: Mapping[str, float]) -> tuple[Measured, list[str]]:
    """Return the combination without its redundant changes, and the names of those.

    Redundant changes are left out one after another, the smallest gain first, so that of two which do the same one
    stays. Each may be missed a little, so in the end the whole must not beat what remains.
    """
    levels = chosen.contrast.levels
    kept, dropped = list(levels), []
    for pick in _passengers(chosen, gains):
        if len(kept) > 1 and not _missed(inv, kept, [pick]):
            kept.remove(pick)
            dropped.append(pick)
    if not dropped or (len(dropped) > 1 and _missed(inv, levels, dropped)):
        return chosen, []
    smaller = _confirmed(inv, kept)
    if smaller.verdict.outcome is not Outcome.SUPPORTED:
        return chosen, []
    return smaller, [label([pick]) for pick in dropped]


def _passengers(chosen: Measured, gains: Mapping[str, float]) -> list[Pick]:
    """Return the levels that may be redundant, the smallest gain first.

    A level may be redundant if the combination's interval reaches down to the product of the others' single gains.
    """
    levels, effect = chosen.contrast.levels, chosen.verdict.effect
    single = {pick[0].name: gains.get(label([pick])) for pick in levels}
    whole = None if None in single.values() else math.prod(single.values())

    def may_bring_nothing(pick: Pick) -> bool:
        return whole is None or effect is None or effect.low <= whole / single[pick[0].name]

    return sorted(filter(may_bring_nothing, levels), key=lambda pick: single[pick[0].name] or 1.0)


def _missed(inv: Investigation, levels: Sequence[Pick], picks: Sequence[Pick]) -> bool:
    """Return whether `picks` may bring something beyond the rest of `levels`, or are what the rest needs."""
    rest = combine(inv.settings, _with_conditions([p for p in levels if p not in picks]), inv.machine)
    whole = combine(inv.settings, _with_conditions(levels), inv.machine)
    if rest.treatment.settings == whole.treatment.settings:
        return True
    contrast = Contrast(levels=_with_conditions(picks), baseline=rest.treatment, treatment=whole.treatment)
    found = inv.compare(contrast, f"{label(picks)} beyond {label(rest.levels)}")
    return found.verdict.outcome is not Outcome.REFUTED


def _confirmed(inv: Investigation, picks: Sequence[Pick]) -> Measured:
    """Measure levels together against the baseline, with fresh pairs that were not used to choose them."""
    contrast = combine(inv.settings, _with_conditions(picks), inv.machine)
    found = inv.judge([contrast], CONFIRMED, purpose="confirmation")[0]
    return replace(found, contrast=replace(found.contrast, levels=tuple(picks)))


# -- what may be chosen --


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
    # compare the settings, not the factors' names: a mode of compiling also switches compiling on
    kept = all(f.current(m.contrast.treatment.settings) == f.current(settings) for f in never)
    return permitted[m.verdict.meaning] and kept


def _pays(inv: Investigation, m: Measured) -> bool:
    """Return whether the whole job ends sooner with the change. A long start may cost more than the change saves."""
    before, after = inv.baseline.projection, _projected(inv, m)
    return before is None or after is None or after.seconds < before.seconds


def _projected(inv: Investigation, m: Measured) -> Projection | None:
    return project(m.contrast.treatment.settings, inv.noise, inv.events, m.record)


def _with_conditions(picks: Sequence[Pick]) -> tuple[Pick, ...]:
    """Return the levels with their conditions as part of the change, to compare them with the run as it is."""
    chosen = {key for _, level in picks for key in level.overrides}

    def with_condition(level: Level) -> Level:
        conditions = {key: value for key, value in level.given.items() if key not in chosen}
        return replace(level, overrides=conditions | level.overrides, given={})

    return tuple((factor, with_condition(level)) for factor, level in picks)


def _unconditional(inv: Investigation, m: Measured) -> Measured:
    """Measure the change together with its condition against the run as it is, if `m` had the condition in both arms.

    Its levels stay as they are. So in a combination, other levels may set what the condition sets.
    """
    if not m.contrast.given:
        return m
    contrast = combine(inv.settings, _with_conditions(m.contrast.levels), inv.machine)
    whole = inv.compare(contrast, f"{contrast.name} with all that it needs")
    return replace(whole, contrast=replace(whole.contrast, levels=m.contrast.levels))


def _names(picks: Sequence[Pick]) -> frozenset[str]:
    return frozenset(label([pick]) for pick in picks)
