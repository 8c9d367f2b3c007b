"""A command that runs for real, with the changes that an investigation found."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

from slowstep.command.given_values import arguments, split
from slowstep.launch.early_variables import harmless
from slowstep.launch.probe_entry import entry
from slowstep.records.plain_files import read_plain
from slowstep.settings.command import CHANGES, COPIES, Command, digest
from slowstep.settings.convert import from_plain
from slowstep.settings.errors import SettingsError
from slowstep.settings.plain import unsuitable
from slowstep_probe.changed import files_in
from slowstep_probe.ranks.rank import PROCESS, SPAWN, SUBPROCESS, way_of
from slowstep_probe.secret import masked
from slowstep_probe.survey.debug_environment import environment_of

RUN = "run-"
"""The beginning of the names of folders that hold the changed copies of one run."""

MADE = ("values", "feeding", "freed_memory", "processes", "launcher", "micro_batches")
"""What is done in the command's process, and in which processes."""


@dataclass(frozen=True, kw_only=True)
class AdoptedChanges:
    """The changes that an investigation left in its final/. Earlier versions and one process need not say all of it."""

    values: dict[str, Any]
    """The new values, by canonical key."""
    feeding: list[str]
    """`file:line` of each place where a loader is made that feeds training."""
    given: dict[str, Any]
    """What the command is given beyond its own words: by option, or by `file:key`."""
    freed_memory: str
    early: dict[str, str] = field(default_factory=dict)
    """Environment variables that the program is started with, as far as they are harmless."""
    program: str = ""
    """The program that they were found for; empty if that is not known."""
    launching: list[str] | None = None
    """Its launcher with the launcher's options; None if that is not known."""
    launcher: str = ""
    processes: int = 0
    nodes: int = 0
    micro_batches: int = 0
    sources: dict[str, str] = field(default_factory=dict)
    """The digests of the program's files as they were measured, by path."""

    @property
    def none(self) -> bool:
        """Return whether they change nothing, as where an investigation adopted no change."""
        return not (self.values or self.given) and self.freed_memory == "returned"


def run(command: Command, changes: AdoptedChanges, env: Mapping[str, str]) -> NoReturn:
    """Become the command's process, with its program changed. What it prints, reads and returns is its own."""
    if changes.none:
        words = [command.python, *command.options, *command.arguments]
        os.execve(command.python, words, dict(env) | command.env)
    if changes.nodes > 1:
        raise SettingsError(
            f"{command}: it trains on several nodes, where each would need the changes; make them in its code, as "
            "changes.md names them"
        )
    if changes.processes and way_of(changes.launcher) in (SPAWN, SUBPROCESS, PROCESS):
        raise SettingsError(
            f"{command}: it starts its processes itself, and each of them would do again what it does before; make the "
            "changes in its code, as changes.md names them"
        )
    if changes.launching not in (None, command.launching):
        found = shlex.join(changes.launching) or "no launcher"
        raise SettingsError(
            f"{command}: these changes were found for a program that is started by {found}; start it so, or run "
            "`slowstep diagnose` on this command"
        )
    copies = _new_folder() if any(split(name)[0] for name in changes.given) else None
    words = arguments(command, changes.given, copies or Path(command.folder), links=copies is not None)
    order = {
        "arguments": words,
        "folder": command.folder,
        "command": [command.python, *words],
        "copies": {"folder": str(copies), "files": files_in(str(copies))} if copies else None,
        **{name: getattr(changes, name) for name in MADE},
    }
    asked = dict(env) | command.env | harmless(changes.early)
    left = environment_of(changes.values, asked)
    order["without"] = sorted(asked.keys() - left.keys())
    words = [command.python, *command.options, "-c", entry("changed"), json.dumps(order)]
    os.execve(command.python, words, left)


def beyond(changes: AdoptedChanges) -> Iterator[str]:
    """Yield a line for each environment variable and each option or value that the command is given beyond its own.

    A variable that may lead to other code is told not to be set.
    """
    if changes.none:
        return
    early = harmless(changes.early)
    for name in changes.early:
        if name in early:
            yield f"the program starts with {name}={masked(name, early[name])}"
        else:
            yield (
                f"{name} is left to the program's own code, which set it when these changes were found: a file that is "
                "shared may set nothing that leads to other code. Set it yourself if it has to be there from the start"
            )
    for name, value in changes.given.items():
        file, key = split(name)
        shown = masked(key, value)
        yield f"in the copy of {file}, {key} is {shown}" if file else f"the command is given {key} {shown}"


def outdated(changes: AdoptedChanges, command: Command) -> Iterator[str]:
    """Yield a line for each reason for which changes may not be made in the program of a command."""
    if changes.none:
        yield "no change was adopted, so nothing is changed: the program trains as it is"
        return
    if changes.program not in ("", command.program):
        yield (
            f"these changes were found for {changes.program}; in {command.program} those of its loaders are not "
            "made, since they belong to a line"
        )
        return
    moved = [command.shown(file) for file, known in changes.sources.items() if digest(file) != known]
    if moved:
        yield (
            f"{', '.join(moved[:3])} changed after these changes were found; those of a loader are made only where its "
            "line is the same. What was changed is said at the end"
        )


def _new_folder() -> Path:
    """Return a new folder for changed copies of configuration files, which stays: programs write beside them.

    It lies outside of the investigation, whose folder holds no links to others.
    """
    try:
        place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slowstep"
        place.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=RUN, dir=place)) / COPIES
    except (OSError, RuntimeError):  # no home, or a full one
        return Path(tempfile.mkdtemp(prefix=f"slowstep-{RUN}")) / COPIES


def changes_in(folder: Path) -> AdoptedChanges:
    """Return the changes that an investigation left in its final/; SettingsError if they can't be read."""
    path = folder / CHANGES
    if not path.exists() and (folder / "final" / CHANGES).is_file():
        raise SettingsError(f"{folder}: is an investigation; give its folder of changes, {folder / 'final'}.")
    try:
        found = json.loads(read_plain(path).decode("utf-8"))
        for key, why in unsuitable(found):
            raise ValueError(f"{key}: {why}")
        if isinstance(found, dict):  # a later version may say more
            found = {name: found[name] for name in (one.name for one in fields(AdoptedChanges)) if name in found}
        return from_plain(AdoptedChanges, found)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        what = "there is no such file" if missing else f"it can't be read: {error.strerror}"
        raise SettingsError(f"{path}: {what}; give the folder final/ of a command's investigation") from None
    except (ValueError, RecursionError) as error:
        why = "it is no JSON" if isinstance(error, RecursionError | json.JSONDecodeError | UnicodeError) else error
        first = str(why).splitlines()[0].rstrip(".")
        raise SettingsError(
            f"{path}: it holds no changes ({first}); run `slowstep diagnose` on the command again"
        ) from None
