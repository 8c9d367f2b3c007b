"""The settings of a row: the parameter file's own, replaced where the row says something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slowstep.audit.relations import TITLES
from slowstep.factors import CATALOGUE
from slowstep.settings import TRAINED, Settings, SettingsError, override
from slowstep.settings.convert import to_plain
from slowstep.settings.errors import nearest
from slowstep.settings.library_arguments import RENAMED, SECTIONS
from slowstep.settings.reported import Row

Path = tuple[str, ...]
"""The names that lead to a value, from the section inwards."""


def row_settings(said: Mapping[str, Any], base: Settings, key: str, cells: Mapping[str, str] | None = None) -> Settings:
    """Return the file's settings with those of a row; SettingsError names the key, or the cell, of impossible ones.

    A row may name a setting (`max_length`), its place (`dataset.max_length`), a section with several settings, or a
    factor of the catalogue (`weights`), whose level then applies. Keys that a section does not mention stay as they
    are in the file.
    """
    if not said:
        return base
    cells, problems = cells or {}, []
    leaves: dict[Path, Any] = {}
    factors: dict[str, Any] = {}
    for name, value in said.items():
        place = place_of(name)
        if not place and name in CATALOGUE:
            factors[name] = value
            continue
        if not place:
            problems.append(f"{cells.get(name, f'{key}.{name}')}: {_unknown(name)}")
        for path, leaf in _leaves(tuple(place.split(".")), value) if place else ():
            if any(path[: len(other)] == other[: len(path)] for other in leaves):
                problems.append(f"{key}.{name}: this row says {'.'.join(path)} twice; leave one of the two out.")
            leaves[path] = leaf
    if problems:
        raise SettingsError(problems)
    whole = to_plain(base)
    for path, leaf in leaves.items():
        _put(whole, path, leaf)
    sections = {path[0]: whole[path[0]] for path in leaves}
    own = override(base, sections, key, {place_of(name): cell for name, cell in cells.items()})
    for name, value in factors.items():
        own = _with_level(own, name, value, cells.get(name, f"{key}.{name}"))
    return own


def stated_by_all(rows: Sequence[Row]) -> list[Row]:
    """Return the rows without those settings of their logs' heads that another row does not state.

    A log without such a head does not say that it was trained by the defaults.
    """
    names = {name for row in rows for name in row.of_head}
    said = [{*row.settings, *row.of_head} for row in rows]
    lone = {name for name in names if not all(name in each for each in said)}
    return [
        replace(row, settings={n: v for n, v in row.settings.items() if n not in lone or n not in row.of_head})
        for row in rows
    ]


def without_head(row: Row, problems: Sequence[str]) -> Row:
    """Return a row without the settings of its log's head, which no run can have, and with a question about them."""
    asked = f"which of its head's settings count? {'; '.join(problems)}"
    own = {name: value for name, value in row.settings.items() if name not in row.of_head}
    return replace(row, settings=own, of_head=[], questions=[*row.questions, asked])


def without_overridden(row: Row, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a row without those of its log's head that the parameter file says itself, as `own`."""
    said = {
        path for name, value in own.items() for path, _ in _leaves(tuple((place_of(name) or name).split(".")), value)
    }
    return {n: v for n, v in row.settings.items() if n not in row.of_head or tuple(place_of(n).split(".")) not in said}


def place_of(name: str) -> str:
    """Return the dotted key of a setting that is given by its own name (`max_length`); empty if there is none."""
    if "." in name or name in TRAINED:
        return name
    name = RENAMED.get(name, name)
    for section in ("dataset", "model"):
        if name in _fields(section):
            return f"{section}.{name}"
    return next((f"{s}.{name}" for s, held in SECTIONS.items() if name in held.fields()), "")


def _with_level(own: Settings, name: str, value: Any, key: str) -> Settings:
    """Return the settings at a level of a factor, with what the level needs; SettingsError if they can't have it."""
    factor = CATALOGUE[name]
    if value == factor.current(own.run):
        return own
    wrong = factor.wrong_with(value) or factor.refuses(value, own.run)
    if wrong:
        raise SettingsError(f"{key}: {wrong}.")
    level = factor.level(value, own.run)
    return override(own, level.held_constant | level.changes, key)


def _unknown(name: str) -> str:
    """Return why a name is no setting, and which one was probably meant."""
    if name in TITLES:
        return f"'{name}' is a figure and no setting; write it in the row's `figures`."
    known = {*TRAINED, *CATALOGUE, *_fields("dataset"), *_fields("model")}
    known |= {field for section in SECTIONS.values() for field in section.fields()}
    return f"no such setting or factor as '{name}'.{nearest(name, known)}"


def _fields(section: str) -> Iterator[str]:
    return iter(Settings.__dataclass_fields__[section].default.__dataclass_fields__)


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the single values of a section, each with its path."""
    if not isinstance(value, Mapping) or not value:
        yield path, value
        return
    for name, held in value.items():
        yield from _leaves((*path, str(name)), held)


def _put(data: dict[str, Any], path: Path, value: Any) -> None:
    """Set one value. Missing sections are made, and an empty section does not replace one that is there."""
    *sections, last = path
    for section in sections:
        if not isinstance(data.get(section), dict):
            data[section] = {}
        data = data[section]
    if value != {} or not isinstance(data.get(last), dict):
        data[last] = value
