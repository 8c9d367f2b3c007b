"""Loading of a parameter file, with overrides from the command line, as validated settings."""

from __future__ import annotations

import contextlib
import keyword
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from slowstep.settings import library_arguments
from slowstep.settings.convert import Problems, from_plain, to_plain
from slowstep.settings.errors import SettingsError, nearest_of
from slowstep.settings.parse import UnreadableYaml, parse, read_yaml
from slowstep.settings.plain import unsuitable
from slowstep.settings.rules import impossible, not_here
from slowstep.settings.settings import OVERRIDE, Loaded, Settings
from slowstep_probe.secret import HIDDEN, masked

LONGEST_NAME = 120
"""The most letters of an investigation's name. Files are named after it, and file systems take names of 255 bytes."""

MOST_FILES = 8
"""The most parameter files that are named in place of one that is not there."""


def load(path: str | Path, overrides: Iterable[str] = ()) -> Loaded:
    """Return the settings of a YAML file and of `section.key=value` overrides; SettingsError says all that is wrong."""
    path = Path(path)
    data, lines = _read(path)
    return from_data(data, path, overrides, {key: f"{path}:{line}" for key, line in lines.items()})


def from_data(
    data: dict[str, Any], path: Path, overrides: Iterable[str] = (), places: Mapping[str, str] | None = None
) -> Loaded:
    """Return the settings of `data`, which is or could be a parameter file at `path`, and of overrides.

    SettingsError says all that is wrong.
    """
    places = dict(places or {})
    for text in overrides:
        key, value = _parse_override(text)
        _set(data, key, value)
        places[key] = f"{OVERRIDE}{shown_override(text)[:200]}"
    _find_local(data, path)
    return Loaded(settings=validate(data, str(path), places), source=str(path), places=places)


def shown_override(text: str) -> str:
    """Return an override as it may be shown: `***` in place of a value that is or holds a secret."""
    key, value = _parse_override(text)
    return text if masked(key.rpartition(".")[2], value) == value else f"{key}={HIDDEN}"


def wrong_with_name(name: str) -> Iterator[str]:
    """Yield what speaks against the name of an investigation, which names its folder."""
    if not name.isidentifier() or keyword.iskeyword(name):
        yield f"'{name}' names a folder and must be an identifier: letters, digits, underscores."
    if len(name) > LONGEST_NAME:
        yield f"it names a folder, and has {len(name)} letters; {LONGEST_NAME} at most."


def validate(
    data: Mapping[str, Any],
    source: str,
    places: Mapping[str, str] | None = None,
    defaults: Mapping[str, object] | None = None,
) -> Settings:
    """Return plain data as settings; SettingsError names each problem with its key's place, or else with `source`.

    Settings that were used elsewhere come with the `defaults` of TrainingArguments there. They may name files that
    are not here, and arguments of another transformers.
    """
    problems = Problems(source, places)
    for key, message in unsuitable(data):
        problems.add(key, message)
    if problems.found:  # only plain data can be checked any further
        raise SettingsError(problems.found)
    settings = replace(from_plain(Settings, data, problems), defaults=dict(defaults or {}))
    checked = {}
    for section in library_arguments.SECTIONS:
        given = getattr(settings, section)
        if isinstance(given, dict) and not defaults:
            checked[section] = library_arguments.check(section, given, problems)
    settings = replace(settings, **checked)
    if not problems.found:
        for why in wrong_with_name(settings.name):
            problems.add("name", why)
        for key, message in (*impossible(settings), *(() if defaults else not_here(settings))):
            problems.add(key, message)
    if problems.found:
        raise SettingsError(problems.found)
    return settings


def override(
    settings: Settings, overrides: Mapping[str, Any], source: str = "override", places: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings with values replaced by dotted key, validated again; SettingsError as in `validate`.

    `None` sets a key of an open section, such as `training_arguments`, to None, as TrainingArguments takes it.
    """
    data = to_plain(settings)
    for key, value in overrides.items():
        _set(data, key, value)
    return replace(validate(data, source, places, settings.defaults), as_measured=settings.as_measured)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    if not path.is_file():
        if path.exists():
            raise SettingsError(f"{path}: a folder or a device is no parameter file; name a file (.yaml).")
        raise SettingsError(f"{path}: there is no such file.{_nearest_file(path)}")
    try:
        data, lines = read_yaml(path)
    except OSError as error:
        raise SettingsError(f"{path}: can't be read: {error.strerror}.") from None
    if not isinstance(data, dict):
        raise SettingsError(f"{path}: expected sections with keys (name:, model:, ...), found {type(data).__name__}.")
    return data, lines


def _nearest_file(path: Path) -> str:
    """Return the hint for a missing file: the nearest parameter file beside it, here or in params/, or all of them."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys((path.parent, Path(), Path("params"))):
        for file in sorted(folder.glob("*.y*ml")):
            if _describes(file):
                found.setdefault(file.stem, str(file))
    if close := nearest_of(path.stem, found):
        return f" Did you mean '{found[close]}'?"
    names = list(found.values())
    more = f", and {len(names) - MOST_FILES} more" if len(names) > MOST_FILES else ""
    return f" There are {', '.join(names[:MOST_FILES])}{more}." if names else ""


def _describes(path: Path) -> bool:
    """Return whether a file is a parameter file, by its keys: other programs keep YAML, too."""
    try:
        data, _ = read_yaml(path)
    except (OSError, SettingsError):
        return False
    return isinstance(data, dict) and "name" in data and data.keys() <= {one.name for one in fields(Settings)}


def _find_local(data: dict[str, Any], path: Path) -> None:
    """Make the paths of local models, data and reported figures absolute."""
    for section, key in (("model", "name_or_path"), ("model", "tokenizer"), ("dataset", "name_or_path")):
        if isinstance(data.get(section), dict) and key in data[section]:
            data[section][key] = _absolute(data[section][key], path)
    reported = data.get("reported")
    if isinstance(reported, dict) and isinstance(reported.get("files"), list):
        reported["files"] = [_absolute(name, path) for name in reported["files"]]


def _absolute(name: Any, path: Path) -> Any:
    """Return `name` as an absolute path if it exists; else as it is.

    It is looked for in the working folder, beside the parameter file `path`, and beside that file's folder.
    """
    if isinstance(name, str) and name:
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            for base in (Path(), path.resolve().parent, path.resolve().parent.parent):
                found = base / Path(name).expanduser()
                if found.exists():
                    return str(found.resolve())
    return name


def _parse_override(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise SettingsError(
            f"override '{text}': write section.key=value, as in training_arguments.gradient_checkpointing=false"
        )
    try:
        return key.strip(), parse(value)[0]
    except UnreadableYaml as error:
        why = f"the value is not readable as YAML: {error}; one with spaces stands in quotes: 'key=[2, 8]'"
        raise SettingsError(f"override '{text[:200]}': {why}") from None


def _set(data: dict[str, Any], key: str, value: Any) -> None:
    head, bracket, name = key.partition("[")
    *sections, last = [head, name.removesuffix("]")] if bracket else key.split(".")
    for section in sections:
        if not isinstance(data.get(section), dict):
            data[section] = {}
        data = data[section]
    data[last] = value
