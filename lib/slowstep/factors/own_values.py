"""Factors that only the command knows: its own options, and the values of configuration files that it names.

What is judged from records goes by what the files held when they were measured, since somebody may have taken advice
and edited them, or have copied the records to another machine.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any

from slowstep.command import given_values
from slowstep.environment.machine import Machine
from slowstep.factors.factor import ALL_PHASES, Factor, Level, Meaning
from slowstep.settings import Settings, SettingsError
from slowstep.settings.command import AsMeasured, OwnValue, digest
from slowstep.settings.run import Run
from slowstep.settings.schema import OwnLevels
from slowstep_probe.changing.intervention import given_key

EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
"""Numbers as people write them. YAML 1.1 takes those without a point, or without a sign, for texts: `1e-4`, `1.5e8`."""


def own_factors(settings: Settings) -> list[tuple[Factor, list[Any]]]:
    """Return a factor with its levels for each option and each value of a file that the parameter file lists."""
    return [(own_factor(settings, name, levels), _values(name, levels)) for name, levels in _listed(settings).items()]


def as_they_are(settings: Settings) -> AsMeasured:
    """Return what the command gives now, and the digests of files: all that is judged from records later."""
    reported = settings.reported.files if settings.reported else ()
    own = [os.path.join(settings.command.folder, name) for name in settings.files] if settings.command else []
    return AsMeasured(
        values={name: _own_value(settings, name) for name in _listed(settings)},
        digests={file: digest(file) for file in (*settings.surveyed.files, *own, *reported)},
    )


def _listed(settings: Settings) -> dict[str, OwnLevels]:
    """Return the levels that the parameter file lists, by option or by `file:key`."""
    in_files = {f"{file}:{key}": levels for file, keys in settings.files.items() for key, levels in keys.items()}
    return settings.arguments | in_files


def own_factor(settings: Settings, name: str, levels: OwnLevels) -> Factor:
    """Return the factor of an option, `--lr`, or of a value in a file, `config.yml:model.depth`."""
    file, key = given_values.split(name)
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
        refuses=lambda value, run: _own_value(settings, name).problem,
        requires=_nothing,
    )


def _values(name: str, levels: OwnLevels) -> list[Any]:
    """Return the levels. A text that is written like a number in a file counts as that number on every machine."""
    file, _ = given_values.split(name)
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
    """Return the value that the command is given, or else its own; None where its file can't be read."""
    return settings.given[name] if name in settings.given else _own_value(settings, name).value


def _own_value(settings: Settings, name: str) -> OwnValue:
    """Return what the command itself gives: as it was when the run was measured, or else now.

    Of a run that was measured no file is opened: the records of a stranger may name any.
    """
    if settings.as_measured is not None:
        return settings.as_measured.values.get(name, OwnValue(problem="the records do not say what it was"))
    if settings.command is None:
        return OwnValue(problem="only a command has options and files of its own, and this file describes a run")
    try:
        value = given_values.now(settings.command, name, settings.surveyed.options)
    except SettingsError:
        value = None
    return OwnValue(value=value, problem=given_values.problem(settings.command, name))
