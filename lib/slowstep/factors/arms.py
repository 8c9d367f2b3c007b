"""Arms and contrasts: which settings stand against which."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slowstep.environment.machine import Machine
from slowstep.factors.catalogue import CATALOGUE
from slowstep.factors.factor import Factor, Level, Meaning, show, show_all
from slowstep.settings import LEVEL_SECTIONS, TRAINED, Settings, SettingsError, override
from slowstep.settings.errors import nearest
from slowstep.settings.events import EVENTS, steps_between
from slowstep.settings.sections import CROSSED


@dataclass(frozen=True, kw_only=True)
class Arm:
    """The full settings of one side of a comparison."""

    label: str
    settings: Settings

    def determinants(self) -> dict[str, object]:
        """The settings that decide what the trial does, for the identity of its record."""
        named = {section: getattr(self.settings, section) for section in TRAINED}
        # an epoch is as large as the job says
        intervals = [steps_between(self.settings.run, e, float(self.settings.effective_batch_size)) for e in EVENTS]
        return named | {
            "job.samples": self.settings.job.samples,
            "intervals": intervals,  # of events by a share of the job they depend on its epochs
        }


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A comparison to make: a baseline arm and the same arm with one or several levels changed."""

    levels: tuple[tuple[Factor, Level], ...]
    baseline: Arm
    treatment: Arm
    untestable: str | None = None
    """Why it can't be tested on this machine."""
    unmet: str | None = None
    """Why trials of these settings can't meet what the factor acts on."""
    against: tuple[tuple[Factor, Level], ...] = ()
    """Levels that the baseline has beyond the run's own, where one change stands against another."""

    @property
    def name(self) -> str:
        """As labels show it: `dataloader_num_workers=2`."""
        return label(self.levels)

    @property
    def expects(self) -> dict[str, object]:
        """What the treatment must observe for the change to have taken effect."""
        return {k: v for _, level in self.levels for k, v in level.expects.items()}

    @property
    def overrides(self) -> dict[str, object]:
        """Every value that differs from the investigation's baseline; what was given yields to what was chosen."""
        return self.given | {k: v for _, level in self.levels for k, v in level.overrides.items()}

    @property
    def meaning(self) -> Meaning:
        """The costliest meaning among the levels in which the arms differ."""
        differ = (*self.levels, *self.against)
        return max((f.meaning_of(level) for f, level in differ), key=list(Meaning).index)

    @property
    def given(self) -> dict[str, object]:
        """What both arms have and the investigation's own run lacks, so that it is not the baseline."""
        return {k: v for _, level in self.levels for k, v in level.given.items()}

    @property
    def events(self) -> frozenset[str]:
        """The occasional events that count in the comparison, however rare they are."""
        return frozenset(f.event for f, _ in (*self.levels, *self.against) if f.event)

    def touched(self, device: str) -> frozenset[str]:
        """The phases the change can touch."""
        return frozenset().union(*(f.touched(device) for f, _ in (*self.levels, *self.against)))


def family(settings: Settings, section: str, machine: Machine) -> list[Contrast]:
    """All that a section asks for: each level by itself, and every combination of the factors that are crossed.

    These are the comparisons that Holm's correction counts together.
    """
    alone = plan(settings, section, machine)
    cells = matrix(settings, section, CROSSED.get(section, ()), machine)
    return list({c.name: c for c in (*alone, *cells)}.values())


def plan(settings: Settings, section: str, machine: Machine) -> list[Contrast]:
    """One contrast for each level that a section of the settings lists and the baseline does not already have."""
    return [
        combine(settings, [(factor, level)], machine)
        for factor, values in _chosen(settings, section)
        for level in _levels(factor, values, settings)
    ]


def matrix(settings: Settings, section: str, factors: Sequence[str], machine: Machine) -> list[Contrast]:
    """Every combination of the listed levels of `factors`, the baseline's own level among them, but the baseline."""
    levels = getattr(settings, section)
    axes = [
        [None, *((factor, level) for level in _levels(factor, levels.get(factor.name, []), settings))]
        for factor in (CATALOGUE[name] for name in factors)
    ]
    cells = ([pick for pick in cell if pick] for cell in itertools.product(*axes))
    return [combine(settings, cell, machine) for cell in cells if cell]


def combine(settings: Settings, levels: Iterable[tuple[Factor, Level]], machine: Machine) -> Contrast:
    """The contrast that changes `levels` together."""
    levels = tuple(levels)
    given = {k: v for _, level in levels for k, v in level.given.items()}
    changed = {k: v for _, level in levels for k, v in level.overrides.items()}
    given = {k: v for k, v in given.items() if k not in changed}
    name = label(levels)
    base = override(settings, given, name)
    treated = override(base, changed, name)
    reasons = [f.requires(level.value, treated.run, machine) for f, level in levels]
    extra = f" with {show_all(given)}" if given else ""
    return Contrast(
        levels=levels,
        baseline=Arm(label="baseline" + extra, settings=base),
        treatment=Arm(label=name, settings=treated),
        untestable=next((r for r in reasons if r), None),
        unmet=next((r for r in (f.unmet(settings.run) for f, _ in levels) if r), None),
    )


def label(levels: Iterable[tuple[Factor, Level]]) -> str:
    """A combination of levels as every report names it: `dataloader_num_workers=2 + tokenize=once`."""
    return " + ".join(f"{f.name}={show(level.value)}" for f, level in levels)


def clash(settings: Settings, levels: Sequence[tuple[Factor, Level]], machine: Machine) -> str | None:
    """Why levels that such a run can have one by one can't be had together, or None: one sets what another sets, or
    removes what another needs."""
    name = label(levels)
    try:
        together = combine(settings, levels, machine)
    except SettingsError as error:
        return str(error)
    for factor, level in levels:
        rest = combine(settings, [pick for pick in levels if pick[0] is not factor], machine).treatment.settings
        undone = any(together.overrides[key] != value for key, value in level.overrides.items())
        undone = undone or factor.level(level.value, together.treatment.settings.run).given
        why = factor.refuses(level.value, rest.run) or (f"the others undo {factor.name}" if undone else None)
        if why:
            return f"{name}: {why}"
    return together.untestable


def check_levels(settings: Settings, source: str) -> list[str]:
    """What is wrong with the levels a user listed: unknown factors, values a factor can't take, impossible arms."""
    names = [(f"allow.never[{i}]", name) for i, name in enumerate(settings.allow.never)]
    names += [(f"{section}.{name}", name) for section in LEVEL_SECTIONS for name in getattr(settings, section)]
    unknown = [(key, name) for key, name in names if name not in CATALOGUE]
    problems = [f"{source}: {key}: no such factor.{nearest(name, CATALOGUE)}" for key, name in unknown]
    for section in LEVEL_SECTIONS:
        for factor, values in _chosen(settings, section):
            for i, value in enumerate(values):
                problems += _wrong(factor, value, settings, f"{source}: {section}.{factor.name}[{i}]")
    return problems


def without_refused(settings: Settings) -> Settings:
    """The settings without the levels that such a run can't have."""
    kept = {
        section: {
            factor.name: fitting
            for factor, values in _chosen(settings, section)
            if (fitting := [v for v in values if not _wrong(factor, v, settings, "")])
        }
        for section in LEVEL_SECTIONS
    }
    return replace(settings, **kept)


def _wrong(factor: Factor, value: object, settings: Settings, key: str) -> list[str]:
    """Why a run of these settings can't have a level."""
    wrong = factor.accepts(value) or factor.refuses(value, settings.run)
    if wrong:
        return [f"{key}: {wrong}."]
    level = factor.level(value, settings.run)
    try:
        override(settings, level.given | level.overrides, key)
    except SettingsError as error:
        return error.problems
    return []


def _chosen(settings: Settings, section: str) -> list[tuple[Factor, list]]:
    return [(CATALOGUE[name], values) for name, values in getattr(settings, section).items() if name in CATALOGUE]


def _levels(factor: Factor, values: list, settings: Settings) -> list[Level]:
    current = factor.current(settings.run)
    return [factor.level(value, settings.run) for value in values if value != current]
