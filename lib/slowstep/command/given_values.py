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


def arguments(command: Command, values: Mapping[str, object], folder: Path, links: bool = False) -> list[str]:
    """Return the arguments of a command with values given; changed copies of its files are written to a folder.

    With `links` the copies find what lies beside their originals. That is for a new folder that nobody keeps;
    FileExistsError for one that is there, since a copy could be written through a link in it.
    """
    if links:
        folder.mkdir(parents=True)
    first, *rest = command.arguments
    files = list(dict.fromkeys(split(name)[0] for name in values if split(name)[0]))
    for file in files:
        changes = {split(name)[1]: value for name, value in values.items() if split(name)[0] == file}
        copy, text = copy_of(command, file, folder), own_files.changed_text(Path(command.folder) / file, changes)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.unlink(missing_ok=True)
        with copy.open("x", encoding="utf-8") as written:
            written.write(text)
    for file in files if links else ():  # after all copies, so that none is written through a link
        _mirror(Path(command.folder) / file, folder, copy_of(command, file, folder), command.folder)
    return [first, *_given(command, rest, values, folder)]


def words(command: Command, values: Mapping[str, object], folder: Path) -> list[str]:
    """Return the words of a command as they are typed, with values given by options and by copies in a folder."""
    own = len(command.arguments) - 1
    tail = command.words[-own:] if own else []
    if tail == command.arguments[1:]:  # what stands before is the launcher's
        return [*command.words[: len(command.words) - own], *_given(command, tail, values, folder)]
    return _given(command, command.words, values, folder)


def _given(command: Command, found: Sequence[str], values: Mapping[str, object], folder: Path) -> list[str]:
    options = {name: value for name, value in values.items() if not split(name)[0]}
    result = rewritten(found, options) if options else list(found)
    for file in dict.fromkeys(split(name)[0] for name in values if split(name)[0]):
        result = own_files.renamed(result, file, command.folder, copy_of(command, file, folder))
    return result


def copy_of(command: Command, file: str, folder: Path) -> Path:
    """Return the path of a file's copy: below `folder` it lies as it does below the command's own."""
    inside = Path(os.path.relpath(Path(command.folder) / file, command.folder)).parts
    return folder.joinpath(*(part for part in inside if part != ".."))


def _mirror(original: Path, root: Path, copy: Path, home: str) -> None:
    """Make links beside a copy to what lies beside the original, so that its relative paths lead there.

    The same is done in the folders above, up to the command's own; for a file from elsewhere, in its folder alone.
    """
    own = Path(os.path.relpath(original, home)).parts
    for _ in range(1 if ".." in own else len(own)):
        with contextlib.suppress(OSError):  # a folder that can't be listed, or no links in this file system
            beside = list(original.parent.iterdir())
            for path in beside if len(beside) <= MOST_BESIDE else []:
                holds_copies = Path(os.path.realpath(root)).is_relative_to(os.path.realpath(path))
                if not holds_copies and not os.path.lexists(copy.parent / path.name):
                    (copy.parent / path.name).symlink_to(path.absolute())
        original, copy = original.parent, copy.parent
