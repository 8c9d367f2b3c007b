"""Configuration files that a command names: their values, and copies in which some are changed (YAML, JSON, TOML)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slowstep.settings.errors import SettingsError, nearest
from slowstep_probe.secret import LONG, is_secret, shown_value

KINDS = (".yaml", ".yml", ".json", ".toml")
"""The suffixes of the files that can be changed."""

LARGEST = 2**20
"""The bytes of the largest configuration file that is read."""


NO_PLACE = (KeyError, IndexError, TypeError, ValueError)
"""The errors of a key that leads to nothing."""


def value_in(path: Path, key: str) -> Any:
    """Return the value of a dotted key of a configuration file; None if it has none. SettingsError if it can't be read.

    A part of the key that is a number counts the entries of a list, from 0.
    """
    found: Any = _read(path)[0]
    try:
        for part in key.split("."):
            found = found[_place(found, part)]
    except NO_PLACE:
        return None
    return found


def changed_text(path: Path, values: Mapping[str, Any]) -> str:
    """Return the text of a configuration file with values by dotted key set; all else stays, comments included.

    SettingsError if it has no such value.
    """
    data, write = _read(path)
    for key, value in values.items():
        *sections, last = key.split(".")
        holder = data
        try:
            for part in sections:
                holder = holder[_place(holder, part)]
            place = _place(holder, last)
            _ = holder[place]
            holder[place] = value
        except NO_PLACE:
            near = nearest(key, _keys(data))
            raise SettingsError(f"{path}: it has no value {key}, so nothing can be seen to change.{near}") from None
    return write(data)


def _place(holder: Any, part: str) -> Any:
    """Return the place in data that a part of a dotted key names; ValueError where that is no number of a list."""
    return int(part) if isinstance(holder, list) else part


def holds_secrets(path: Path) -> bool:
    """Return whether a configuration file holds a secret, by its values' names. SettingsError if it can't be read."""
    return any(
        shown_value(text) != text or (is_secret(name, text) and len(text) >= LONG)  # short ones name columns
        for name, text in _texts("", _read(path)[0])
    )


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield all texts in data, each with the key that it, or the list around it, has."""
    if isinstance(value, str):
        yield name, value
    for key, one in value.items() if isinstance(value, Mapping) else ():
        yield from _texts(str(key), one)
    for one in value if isinstance(value, list) else ():
        yield from _texts(name, one)


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """Return the text of a YAML file with values by key, set or added; all else stays, comments included."""
    data, write = _parsed(text, ".yaml")
    data = {} if data is None else data
    data.update(values)
    return str(write(data))


def _keys(data: Any, before: str = "") -> list[str]:
    """Return the dotted keys of all values in data."""
    parts = data.items() if isinstance(data, Mapping) else enumerate(data) if isinstance(data, list) else ()
    found = [(f"{before}{name}", value) for name, value in parts]
    return [key for name, value in found for key in (name, *_keys(value, name + "."))]


def _read(path: Path) -> tuple[Any, Any]:
    """Return the data of a file, and the function that writes such data as text."""
    if path.suffix not in KINDS:
        raise SettingsError(f"{path}: its values can't be changed; files of {', '.join(KINDS)} can")
    try:
        if path.stat().st_size > LARGEST:
            raise SettingsError(f"{path}: it is larger than {LARGEST} bytes, so it is no configuration file")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: can't be read: {getattr(error, 'strerror', error)}") from None
    try:
        data, write = _parsed(text, path.suffix)
    except Exception as error:
        raise SettingsError(f"{path}: is no {path.suffix[1:].upper()}: {str(error).splitlines()[0]}") from None
    if not isinstance(data, Mapping):
        raise SettingsError(f"{path}: expected keys with values, found {type(data).__name__}")
    if _more_values_than(len(text), data):
        raise SettingsError(f"{path}: its aliases (*name), written out, make more values than it has letters")
    return data, write


def _more_values_than(most: int, data: Any) -> bool:
    """Return whether data holds more values than this, each counted wherever an alias names it."""
    left = [data]
    while left and most >= 0:
        one, most = left.pop(), most - 1
        left += one.values() if isinstance(one, Mapping) else one if isinstance(one, list) else ()
    return bool(left)


def _parsed(text: str, suffix: str) -> tuple[Any, Any]:
    if suffix == ".json":
        return json.loads(text), lambda data: json.dumps(data, indent=2) + "\n"
    if suffix == ".toml":
        import tomlkit

        return tomlkit.parse(text), tomlkit.dumps
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 4096
    yaml.representer.add_representer(float, _float)

    def write(data: Any) -> str:
        out = io.StringIO()
        yaml.dump(data, out)
        return out.getvalue()

    return yaml.load(text), write


def _float(representer: Any, value: float) -> Any:
    """Write a number so that YAML 1.1 reads it as one, too: it takes 1e-05 for a text, and 1.0e-05 not."""
    mantissa, e, exponent = repr(value).partition("e")
    text = f"{mantissa}{'' if '.' in mantissa else '.0'}e{exponent}" if e else repr(value)
    special = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}
    return representer.represent_scalar("tag:yaml.org,2002:float", special.get(text, text))


def names_file(word: str, name: str, folder: str) -> bool:
    """Return whether a word of a command names the file `name`: `config.yml`, `--config=config.yml`, `c=config.yml`."""
    return any(
        value == name or (Path(folder) / value).resolve() == (Path(folder) / name).resolve()
        for value in _values(word)
        if value
    )


def _values(word: str) -> list[str]:
    """Return what of a word may be the path of a file."""
    behind = word.partition("=")[2]
    return [behind] if word.startswith("-") else [word, behind]


def renamed(words: Sequence[str], name: str, folder: str, copy: Path) -> list[str]:
    """Return words in which a file is replaced by its copy."""
    found = []
    for word in words:
        option, equals, value = word.partition("=")
        whole = not equals or not names_file(f"--x={value}", name, folder)  # a path may have `=` in it
        new = str(copy) if whole else f"{option}={copy}"
        found.append(new if names_file(word, name, folder) else word)
    return found
