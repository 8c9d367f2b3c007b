"""Arms and contrasts: the settings that are compared with each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slowstep.environment.machine import Machine
from slowstep.factors.catalogue import BY_SECTION, CATALOGUE
from slowstep.factors.factor import ALL_PHASES, Factor, Level, Meaning, show, show_all
from slowstep.factors.interception import impossible
from slowstep.factors.own_values import own_factors
from slowstep.settings import LEVEL_SECTIONS, TRAINED, Settings, SettingsError, override
from slowstep.settings.errors import nearest
from slowstep.settings.periodic_events import EVENTS, is_rare, not_made_to_happen, steps_between
from slowstep.settings.sections import CROSSED, OWN, TESTED_SECTIONS
from slowstep.text.shown import Shown


@dataclass(frozen=True, kw_only=True)
class Arm(Shown):
    """The full settings of one side of a comparison."""

    label: str
    settings: Settings

    def determinants(self) -> dict[str, object]:
        """Return the settings that decide what the trial does, for the identity of its record."""
        named = {section: getattr(self.settings, section) for section in TRAINED}
        # job.samples sets the size of an epoch
        intervals = [steps_between(self.settings.run, e, float(self.settings.effective_batch_size)) for e in EVENTS]
        return named | {
            "job.samples": self.settings.job.samples,
            "intervals": intervals,  # where an interval is a share of the job, it depends on the job's epochs
        }


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A comparison to make: a baseline arm and the same arm with one or several levels changed."""

    levels: tuple[tuple[Factor, Level], ...]
    baseline: Arm
    treatment: Arm
    untestable: str | None = None
    """The reason why it can't be tested on this machine; None if it can."""
    unmet: str | None = None
    """The reason why trials of these settings can't meet what the factor acts on; None if they can."""
    against: tuple[tuple[Factor, Level], ...] = ()
    """Levels that the baseline has beyond the run's own, where one change is compared with another."""
    least: float = 0.0
    """The least gain that supports the hypothesis of a section, where its factor asks for more than the run does. What
    a change brings beside others, or once more, is asked as of any other."""

    @property
    def name(self) -> str:
        """Return the contrast's name in labels: `dataloader_num_workers=2`."""
        return label(self.levels)

    @property
    def expects(self) -> dict[str, object]:
        """Return the facts that the treatment must observe if the change took effect."""
        return {k: v for _, level in self.levels for k, v in level.expects.items()}

    @property
    def overrides(self) -> dict[str, object]:
        """Return every value that differs from the investigation's baseline. A chosen value replaces a given one."""
        return self.held_constant | changes_of(self.levels)

    @property
    def meaning(self) -> Meaning:
        """Return the costliest meaning among the levels in which the arms differ."""
        differ = (*self.levels, *self.against)
        return max((f.meaning_of(level) for f, level in differ), key=list(Meaning).index)

    @property
    def held_constant(self) -> dict[str, object]:
        """Return the settings held constant in both arms that the investigation's own run lacks.

        Where there are any, that run is not the baseline.
        """
        return held_by(self.levels)

    def minimum_effect(self, of_run: float) -> float:
        """Return the least gain that supports it, 0.05 for 5 %: the run's, or more where its change needs more."""
        return max(of_run, self.least)

    @property
    def events(self) -> frozenset[str]:
        """Return the periodic events that count in the comparison, even if they are rare."""
        return frozenset(f.event for f, _ in (*self.levels, *self.against) if f.event)

    @property
    def touches(self) -> frozenset[str]:
        """Return the phases that the change acts on, on any device."""
        return frozenset().union(*(f.touches for f, _ in (*self.levels, *self.against)))

    def touched(self, device: str) -> frozenset[str]:
        """Return the phases that the change can touch on `device` ('cpu' or 'cuda')."""
        return frozenset().union(*(f.touched(device) for f, _ in (*self.levels, *self.against)))

    def acts_on(self, phase: str) -> bool:
        """Return whether the change may be made for a phase, as a command's own options may be for any.

        What merely moves time between all phases is made for none.
        """
        acts = [(f.name in CATALOGUE, touched_by(f.name)) for f, _ in self.levels]
        return any(phase in phases and not (known and phases == ALL_PHASES) for known, phases in acts)


def comparison_family(settings: Settings, section: str, machine: Machine) -> list[Contrast]:
    """Return all contrasts of a section: each level by itself, and every combination of the factors that are crossed.

    Holm's correction counts these comparisons together.
    """
    alone = plan(settings, section, machine)
    cells = matrix(settings, section, CROSSED.get(section, ()), machine)
    return list({c.name: c for c in (*alone, *cells)}.values())


def comparison_families(settings: Settings, machine: Machine) -> list[list[Contrast]]:
    """Return the comparison family of each section that lists levels to try."""
    return [comparison_family(settings, section, machine) for section in TESTED_SECTIONS]


def plan_all(settings: Settings, machine: Machine) -> list[Contrast]:
    """Return the contrasts of all sections, each with a single level."""
    return [contrast for section in TESTED_SECTIONS for contrast in plan(settings, section, machine)]


def plan(settings: Settings, section: str, machine: Machine) -> list[Contrast]:
    """Return one contrast for each level that a section of the settings lists and the baseline does not have."""
    return [
        replace(combine(settings, [(factor, level)], machine), least=factor.least)
        for factor, values in levels_to_try(settings, section, machine)
        for level in _changed_levels(factor, values, settings)
    ]


def levels_to_try(settings: Settings, section: str, machine: Machine) -> list[tuple[Factor, list]]:
    """Return each factor that a section tries with its values.

    They are those that the file lists. With `levels: auto`, a section that lists nothing tries what its own factors
    propose for this run on this machine.
    """
    listed = _listed_factors(settings, section)
    if listed or settings.levels != "auto" or section == OWN:
        return listed
    proposed = [
        (factor, [v for v in factor.proposals(settings.run, machine) if not _level_problems(factor, v, settings, "")])
        for factor in BY_SECTION[section]
    ]
    return [(factor, values) for factor, values in proposed if values]


def matrix(settings: Settings, section: str, factors: Sequence[str], machine: Machine) -> list[Contrast]:
    """Return every combination of levels of `factors`, listed or the baseline's own, but for the baseline itself."""
    levels = {factor.name: values for factor, values in levels_to_try(settings, section, machine)}
    axes = [
        [None, *((factor, level) for level in _changed_levels(factor, levels.get(factor.name, []), settings))]
        for factor in (CATALOGUE[name] for name in factors)
    ]
    cells = ([pick for pick in cell if pick] for cell in itertools.product(*axes))
    return [combine(settings, cell, machine) for cell in cells if cell]


def combine(settings: Settings, levels: Iterable[tuple[Factor, Level]], machine: Machine) -> Contrast:
    """Return the contrast that changes `levels` together; SettingsError if such settings can't be."""
    levels = tuple(levels)
    held_constant, changed = held_by(levels), changes_of(levels)
    name = label(levels)
    base = override(settings, held_constant, name)
    treated = override(base, changed, name)
    reasons = [f.requires(level.value, treated.run, machine) for f, level in levels]
    extra = f" with {show_all(held_constant)}" if held_constant else ""
    return Contrast(
        levels=levels,
        baseline=Arm(label="baseline" + extra, settings=base),
        treatment=Arm(label=name, settings=treated),
        untestable=next((r for r in reasons if r), None),
        unmet=next((r for r in (f.unmet(settings.run) for f, _ in levels) if r), None),
    )


def held_by(levels: Iterable[tuple[Factor, Level]]) -> dict[str, Any]:
    """Return what both arms need for levels that are changed together, by key, beside what these set themselves."""
    levels = tuple(levels)
    changed = changes_of(levels)
    return {k: v for _, level in levels for k, v in level.held_constant.items() if k not in changed}


def changes_of(levels: Iterable[tuple[Factor, Level]]) -> dict[str, Any]:
    """Return all that levels set together in the treatment, by key."""
    levels = tuple(levels)
    kept = {key: value for _, level in levels for key, value in level.keeps.items()}
    return kept | {key: value for _, level in levels for key, value in level.overrides.items()}


def label(levels: Iterable[tuple[Factor, Level]]) -> str:
    """Return the name of a combination of levels in every report: `dataloader_num_workers=2 + tokenize=once`."""
    return " + ".join(f"{f.name}={show(level.value)}" for f, level in levels)


def clash(settings: Settings, levels: Sequence[tuple[Factor, Level]], machine: Machine) -> str | None:
    """Return why levels that a run can have one by one can't be had together; None if they can.

    One may set what another sets, or remove what another needs.
    """
    name = label(levels)
    try:
        together = combine(settings, levels, machine)
    except SettingsError as error:
        return str(error)
    for factor, level in levels:
        rest = combine(settings, [pick for pick in levels if pick[0] is not factor], machine).treatment.settings
        undone = any(together.overrides[key] != value for key, value in level.overrides.items())
        undone = undone or factor.level(level.value, together.treatment.settings.run).held_constant
        why = factor.refuses(level.value, rest.run) or (f"the others undo {factor.name}" if undone else None)
        if why:
            return f"{name}: {why}"
    return together.untestable


def check_levels(settings: Settings, source: str) -> list[str]:
    """Return all that is wrong with the listed levels: unknown factors, values a factor can't take, impossible arms."""
    names = [(f"allow.never[{i}]", name) for i, name in enumerate(settings.allow.never)]
    names += [(f"{section}.{name}", name) for section in LEVEL_SECTIONS for name in getattr(settings, section)]
    unknown = [(key, name) for key, name in names if name not in CATALOGUE]
    problems = [f"{source}: {key}: no such factor.{nearest(name, CATALOGUE)}" for key, name in unknown]
    for section in TESTED_SECTIONS:
        for factor, values in _listed_factors(settings, section):
            for i, value in enumerate(values):
                problems += _level_problems(factor, value, settings, f"{source}: {section}.{factor.name}[{i}]")
    return problems


def without_refused(settings: Settings) -> Settings:
    """Return the settings without the levels that such a run can't have."""
    kept = {
        section: {
            factor.name: fitting
            for factor, values in _listed_factors(settings, section)
            if (fitting := [v for v in values if not _level_problems(factor, v, settings, "")])
        }
        for section in LEVEL_SECTIONS
    }
    return replace(settings, **kept)


def _level_problems(factor: Factor, value: object, settings: Settings, key: str) -> list[str]:
    """Return the reasons why a run of these settings can't have a level, each as a message about `key`."""
    wrong = factor.wrong_with(value) or factor.refuses(value, settings.run)
    if wrong:
        return [f"{key}: {wrong}" + ("" if wrong.endswith("?") else ".")]
    level = factor.level(value, settings.run)
    if why := impossible(level, settings.run):
        return [f"{key}: {why}."]
    rare = factor.event and is_rare(settings.run, factor.event)
    if rare and (why := not_made_to_happen(settings, factor.event)):
        return [f"{key}: it acts on what happens too rarely to be met in a trial, and {why}."]
    try:
        override(settings, level.held_constant | level.changes, key)
    except SettingsError as error:
        return error.problems
    return []


def touched_by(factor: str) -> frozenset[str]:
    """Return the phases that a factor can touch, by its name; all of them for a command's own options."""
    return CATALOGUE[factor].touches if factor in CATALOGUE else ALL_PHASES


def is_undoing(factor: str) -> bool:
    """Return whether a factor's changes undo what costs time and is seldom needed (`Factor.undoes`), by its name."""
    return factor in CATALOGUE and CATALOGUE[factor].undoes


def limited_by(factor: str) -> str:
    """Return the changes whose limit a factor's diagnostic level shows, in words."""
    return (CATALOGUE[factor].limits if factor in CATALOGUE else "") or "changes of this kind"


def _listed_factors(settings: Settings, section: str) -> list[tuple[Factor, list]]:
    if section == OWN:
        return own_factors(settings)
    return [(CATALOGUE[name], values) for name, values in getattr(settings, section).items() if name in CATALOGUE]


def _changed_levels(factor: Factor, values: list, settings: Settings) -> list[Level]:
    current = factor.current(settings.run)
    return [factor.level(value, settings.run) for value in values if value != current]
