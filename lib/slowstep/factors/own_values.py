"""Factors that only the command knows: its own options, and the values of configuration files that it names."""

from __future__ import annotations

import math
import re
from typing import Any

from slowstep.command import given
from slowstep.environment.machine import Machine
from slowstep.factors.factor import ALL_PHASES, Factor, Level, Meaning
from slowstep.settings import Settings, SettingsError
from slowstep.settings.run import Run
from slowstep.settings.schema import OwnLevels
from slowstep_probe.changing.intervention import given_key


def own_factors(settings: Settings) -> list[tuple[Factor, list[Any]]]:
    """Return a factor with its levels for each option and each value of a file that the parameter file lists."""
    named = dict(settings.arguments)
    named |= {f"{file}:{key}": levels for file, keys in settings.files.items() for key, levels in keys.items()}
    return [(own_factor(settings, name, levels), _values(name, levels)) for name, levels in named.items()]


def own_factor(settings: Settings, name: str, levels: OwnLevels) -> Factor:
    """Return the factor of an option, `--lr`, or of a value in a file, `config.yml:model.depth`."""
    file, key = given.split(name)
    what = f"The value {key} of {file}" if file else f"The option {name}"
    return Factor(
        name=name,
        title=what,
        hypothesis=f"{what} has a value that makes steps slow.",
        cause=f"The present value of {key} in {file}" if file else f"The present value of {name}",
        meaning=Meaning(levels.meaning),
        changes="what the program does with it" if levels.meaning == "semantics" else "what its author says",
        current=lambda run: _now(settings, name),
        level=lambda value, run: _level(name, value),
        touches=ALL_PHASES,
        examples=(),
        refuses=lambda value, run: _problem(settings, name),
        requires=_nothing,
    )


EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
"""Numbers as people write them. YAML 1.1 takes those without a point, or without a sign, for texts: `1e-4`, `1.5e8`."""


def _values(name: str, levels: OwnLevels) -> list[Any]:
    """Return the levels. What is written like a number of a file is one, on each machine that reads the records."""
    file, _ = given.split(name)
    return [_number(value) if file and isinstance(value, str) else value for value in levels.levels]


def _number(text: str) -> Any:
    """Return the number that a text is written like, whole where it can be (`1e8` may count steps); else the text."""
    if not EXPONENT.fullmatch(text) or math.isinf(number := float(text)):
        return text
    return int(number) if number.is_integer() else number


def _nothing(value: Any, run: Run, machine: Machine) -> str | None:
    """nothing"""
    return None


def _level(name: str, value: Any) -> Level:
    key = given_key(name)
    return Level(value=value, overrides={key: value}, expects={key: value})


def _now(settings: Settings, name: str) -> Any:
    """Return the command's own value; None where its file is not here, as for records from another machine."""
    if name in settings.given:
        return settings.given[name]
    if settings.command is None:
        return None
    try:
        return given.now(settings.command, name, settings.surveyed.options)
    except SettingsError:
        return None


def _problem(settings: Settings, name: str) -> str | None:
    if settings.command is None:
        return "only a command has options and files of its own, and this file describes a run"
    return given.problem(settings.command, name)
