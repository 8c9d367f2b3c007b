"""Values that a command is given by its options and its configuration files, by name: `--lr`, or `config.yml:a.b`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slowstep.command import own_files
from slowstep.command.options import current, rewritten
from slowstep.settings.command import Command
from slowstep.settings.errors import SettingsError

MOST_BESIDE = 1000
"""The most entries of a folder that links are made to. A folder with more holds data."""


def split(name: str) -> tuple[str, str]:
    """Return the file and the key of a value's name; the file is empty for an option."""
    file, colon, key = name.partition(":")
    return ("", name) if name.startswith("-") or not colon else (file, key)


def now(command: Command, name: str, options: Mapping[str, object]) -> Any:
    """Return the value that the command gives; for an option, what its own parser made of it, where that is known."""
    file, key = split(name)
    if file:
        return own_files.value_in(Path(command.folder) / file, key)
    return options[name] if name in options else current(command.arguments[1:], name)


def problem(command: Command, name: str) -> str | None:
    """Return why a value can't be given to a command, or None."""
    file, key = split(name)
    if not file:
        return None
    if not any(own_files.names_file(word, file, command.folder) for word in command.arguments[1:]):
        return f"the command does not name the file {file}, so a changed copy of it would not be read"
    try:
        own_files.changed_text(Path(command.folder) / file, {key: 0})
    except SettingsError as error:
        return str(error)
    return None


def arguments(command: Command, values: Mapping[str, object], folder: Path) -> list[str]:
    """Return the arguments of a command with values given; changed copies of its files are written to a folder."""
    first, *rest = command.arguments
    return [first, *_given(command, rest, values, folder)]


def words(command: Command, values: Mapping[str, object], folder: Path) -> list[str]:
    """Return the words of a command as they are typed, with values given by options and by copies in a folder."""
    own = len(command.arguments) - 1
    tail = command.words[-own:] if own else []
    if tail == command.arguments[1:]:  # what stands before is the launcher's
        return [*command.words[: len(command.words) - own], *_given(command, tail, values, folder, write=False)]
    return _given(command, command.words, values, folder, write=False)


def _given(
    command: Command, found: Sequence[str], values: Mapping[str, object], folder: Path, write: bool = True
) -> list[str]:
    options = {name: value for name, value in values.items() if not split(name)[0]}
    result = rewritten(found, options) if options else list(found)
    for file in dict.fromkeys(split(name)[0] for name in values if split(name)[0]):
        changes = {split(name)[1]: value for name, value in values.items() if split(name)[0] == file}
        inside = Path(os.path.relpath(Path(command.folder) / file, command.folder))
        copy = folder / (Path(*inside.parts[inside.parts.count("..") :]) if ".." in inside.parts else inside)
        if write:
            text = own_files.changed_text(Path(command.folder) / file, changes)
            _mirror(Path(command.folder) / file, copy, copy.relative_to(folder).parts)
            copy.write_text(text, encoding="utf-8")
        result = own_files.renamed(result, file, command.folder, copy)
    return result


def _mirror(original: Path, copy: Path, inside: Sequence[str]) -> None:
    """Make the folders of a copy, with links to what lies beside the original, so that its relative paths lead there.

    `inside` holds the parts of the path that both have in common.
    """
    copy.parent.mkdir(parents=True, exist_ok=True)
    for _ in inside:
        with contextlib.suppress(OSError):  # a folder that can't be listed, or no links in this file system
            beside = list(original.parent.iterdir())
            for path in beside if len(beside) <= MOST_BESIDE else []:
                link = copy.parent / path.name
                around = path.resolve() in link.resolve().parents  # a link to it would lead to itself
                if path.name != original.name and not around and not os.path.lexists(link):
                    link.symlink_to(path.absolute())
        original, copy = original.parent, copy.parent
