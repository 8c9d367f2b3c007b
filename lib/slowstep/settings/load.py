"""A parameter file and overrides from the command line, as validated settings."""

from __future__ import annotations

import contextlib
import keyword
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from slowstep.settings import ecosystem
from slowstep.settings.convert import Problems, from_plain, to_plain
from slowstep.settings.errors import SettingsError, nearest
from slowstep.settings.rules import impossible
from slowstep.settings.schema import Loaded, Origin, Settings

UNREADABLE = (yaml.YAMLError, ValueError, RecursionError)
"""What PyYAML raises: ValueError for a date such as 2020-99-99, RecursionError for a mapping that holds itself."""


def load(path: str | Path, overrides: Iterable[str] = ()) -> Loaded:
    """Settings from a YAML file and `section.key=value` overrides; SettingsError says all that is wrong."""
    path = Path(path)
    data, lines = _read(path)
    origins = {key: Origin(kind="file", place=f"{path.name}:{line}") for key, line in lines.items()}
    for text in overrides:
        key, value = _parse_override(text)
        _set(data, key, value)
        lines[key] = f"override {text}"
        origins[key] = Origin(kind="command line", place=text)
    _find_local(data, path)
    _find_reported(data, path)
    return Loaded(settings=validate(data, str(path), lines), source=str(path), origins=origins)


def validate(data: Mapping[str, Any], source: str, lines: Mapping[str, int | str] | None = None) -> Settings:
    """Plain data as settings; SettingsError names every problem with `source` and its line."""
    problems = Problems(source, lines)
    settings = from_plain(Settings, data, problems)
    checked = {}
    for section in ecosystem.SECTIONS:
        given = getattr(settings, section)
        if isinstance(given, dict):
            checked[section] = ecosystem.check(section, given, problems)
    settings = replace(settings, **checked)
    if not problems.found:
        if not settings.name.isidentifier() or keyword.iskeyword(settings.name):
            problems.add(
                "name",
                f"'{settings.name}' names a folder and must be an identifier: letters, digits, underscores.",
            )
        for key, message in impossible(settings):
            problems.add(key, message)
    if problems.found:
        raise SettingsError(problems.found)
    return settings


def override(
    settings: Settings, overrides: Mapping[str, Any], source: str = "override", places: Mapping[str, str] | None = None
) -> Settings:
    """Settings with values replaced by dotted key, validated again; `None` unsets a key of an open section.

    A message names `source`, or where `places` says that its key was written.
    """
    data = to_plain(settings)
    for key, value in overrides.items():
        _set(data, key, value)
    return validate(data, source, places)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    if not path.is_file():
        here = path.parent if path.parent.is_dir() else Path("params")
        near = nearest(path.name, [p.name for p in here.glob("*.y*ml")]) if here.is_dir() else ""
        raise SettingsError(f"{path}: there is no such file.{near}")
    try:
        text = path.read_text(encoding="utf-8")
        data = yaml.safe_load(text)
        keys = list(_key_lines(yaml.compose(text, Loader=yaml.SafeLoader), ""))
    except UNREADABLE as error:
        raise SettingsError(f"{path}: not readable as YAML: {error}") from None
    if not isinstance(data, dict):
        raise SettingsError(f"{path}: expected sections with keys (name:, model:, ...), found {type(data).__name__}.")
    lines = dict(reversed(keys))
    twice = [(key, line) for key, line in keys if line != lines[key]]
    if twice:  # YAML readers keep the last in silence
        raise SettingsError(f"{path}:{line}: {key}: given before, in line {lines[key]}." for key, line in twice)
    return data, lines


def _key_lines(node: yaml.Node, prefix: str) -> Iterable[tuple[str, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            path = f"{prefix}.{key.value}" if prefix else str(key.value)
            yield path, key.start_mark.line + 1
            yield from _key_lines(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield f"{prefix}[{i}]", value.start_mark.line + 1


def _find_local(data: dict[str, Any], path: Path) -> None:
    """Make local paths absolute, as seen from here, from the parameter file, or from the folder above it."""
    for section, key in (("model", "name_or_path"), ("model", "tokenizer"), ("dataset", "name_or_path")):
        name = data.get(section, {}).get(key) if isinstance(data.get(section), dict) else None
        if not isinstance(name, str) or not name:
            continue
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            for base in (Path(), path.resolve().parent, path.resolve().parent.parent):
                found = base / Path(name).expanduser()
                if found.exists():
                    data[section][key] = str(found.resolve())
                    break


def _find_reported(data: dict[str, Any], path: Path) -> None:
    """Make the paths of reported files absolute, as seen from the parameter file or from here."""
    reported = data.get("reported")
    files = reported.get("files") if isinstance(reported, dict) else None
    if isinstance(files, list):
        bases = (path.resolve().parent, Path(), path.resolve().parent.parent)
        places = [[str(b / n) for b in bases if isinstance(n, str) and (b / n).is_file()] for n in files]
        reported["files"] = [found[0] if found else name for name, found in zip(files, places, strict=True)]


def _parse_override(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise SettingsError(
            f"override '{text}': write section.key=value, as in training_arguments.gradient_checkpointing=false"
        )
    try:
        return key.strip(), yaml.safe_load(value)
    except UNREADABLE as error:
        raise SettingsError(f"override '{text}': the value is not readable as YAML: {error}") from None


def _set(data: dict[str, Any], key: str, value: Any) -> None:
    *sections, last = key.split(".")
    for section in sections:
        if not isinstance(data.get(section), dict):
            data[section] = {}
        data = data[section]
    data[last] = value
