"""A command that trains, and what a survey saw of it: the sections of a parameter file that a script has."""

from __future__ import annotations

import hashlib
import keyword
import os
import re
import shlex
import stat
from dataclasses import dataclass, field
from pathlib import Path

from slowstep_probe.ranks.launched_commands import MODULES, SCRIPTS
from slowstep_probe.secret import hidden, masked

CHANGES = "changes.json"
"""The file in final/ with the changes that `slowstep run --with` makes."""

INSTALLED = ("site-packages", "dist-packages")
"""The folders that hold installed packages."""

COPIES = "files"
"""The folder in final/ with changed copies of the configuration files that a command names."""


def digest(file: str) -> str:
    """Return a digest of a regular file's content; empty if there is none, or none that can be read.

    Its path may be a stranger's, and a pipe or a device never comes to an end.
    """
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            regular = stat.S_ISREG(os.fstat(opened.fileno()).st_mode)
            return hashlib.file_digest(opened, "sha256").hexdigest() if regular else ""
    except (OSError, ValueError):  # a zero byte in a path
        return ""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command that trains, resolved."""

    words: list[str]
    """The command as it was given."""
    python: str
    """The interpreter."""
    options: list[str] = field(default_factory=list)
    """The interpreter's own options."""
    arguments: list[str]
    """The program: `["train.py", "--lr", "1"]`, or `["-m", "package", …]`."""
    folder: str
    """The working directory."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment variables that the command sets beyond the caller's."""
    early: dict[str, str] = field(default_factory=dict)
    """Environment variables that its program sets before it imports libraries. It is started with them, since the kit
    has imported these by then."""
    python_version: str = ""
    torch_version: str = ""
    protected: bool = True
    """True if nothing that a trial writes may stay."""
    processes: int = 0
    """The number of processes that it starts to train together, on all nodes; 0 for one that starts no others."""
    nodes: list[int] = field(default_factory=list)
    """The number of these processes on each node; empty for a command that starts them on this host."""
    launcher: str = ""
    """The way in which it starts them (`slowstep_probe.ranks.launchers`)."""
    launched: list[str] = field(default_factory=list)
    """The program that a launcher starts, as `arguments` would name it; empty where those do."""

    @property
    def name(self) -> str:
        """A short name: that of the script or the module."""
        program = self.launched or self.arguments
        path = Path(program[0])
        what = program[1] if program[0] == "-m" else path.parent.name if path.stem == "__main__" else path.stem
        last = what.rpartition(".")[2] if program[0] == "-m" else what
        name = re.sub(r"\W+", "_", last).strip("_") or "command"
        return name if name.isidentifier() and not keyword.iskeyword(name) else f"run_{name}"

    @property
    def has_secrets(self) -> bool:
        """True if a word of the command, or a value that it is started with, is a secret or has one in it."""
        variables = self.env | self.early
        return hidden(self.words) != self.words or masked("", variables) != variables

    def __str__(self) -> str:
        return shlex.join(hidden(self.words))

    @property
    def program(self) -> str:
        """The program: the path of its file, or the name of its module. Behind a launcher it is the first `.py`."""
        by_module = self.arguments[0] == "-m"
        started = self.arguments[1] if by_module else Path(self.arguments[0]).name
        if started.startswith((*SCRIPTS, *MODULES)):
            behind = next((word for word in self.arguments[1:] if word.endswith(".py")), None)
            return str(Path(self.folder, behind).resolve()) if behind else f"what {started} starts"
        return f"-m {started}" if by_module else str(Path(self.folder, self.arguments[0]).resolve())

    @property
    def launching(self) -> list[str]:
        """The launcher with its options, `["torchrun", "--nproc-per-node", "2"]`; [] where the program has none."""
        by_module = self.arguments[0] == "-m"
        words = self.arguments if by_module else [Path(self.arguments[0]).name, *self.arguments[1:]]
        if not words[by_module].startswith((*SCRIPTS, *MODULES)):
            return []
        return words[: next((at for at, word in enumerate(words) if at and word.endswith(".py")), len(words))]

    def shown(self, file: str) -> str:
        """Return the path of a file as its user would write it.

        That is within the command's folder if it lies there, and within its package, `trl/scripts/sft.py`, if that is
        installed.
        """
        path, home = Path(file), Path(self.folder).resolve()
        installed = [at for at, part in enumerate(path.parts) if part in INSTALLED]
        if installed:
            return str(Path(*path.parts[installed[-1] + 1 :]))
        return str(path.relative_to(home) if path.is_relative_to(home) else path)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A value that a survey saw, and the place in the user's code that it comes from, if that is known."""

    value: object
    place: str = ""


@dataclass(frozen=True, kw_only=True)
class Surveyed:
    """What a survey saw of a command, as far as trials of it need it."""

    values: dict[str, Seen] = field(default_factory=dict)
    """The values of the run, by canonical key."""
    options: dict[str, object] = field(default_factory=dict)
    """The command's own options, with the values that its parser found."""
    objects: list[str] = field(default_factory=list)
    """The kinds of objects that the program makes: 'arguments', 'loader', 'optimizer', 'model', 'transformers', …"""
    feeding: list[str] = field(default_factory=list)
    """`file:line` of each place where a loader is made that feeds training."""
    files: list[str] = field(default_factory=list)
    """The files of the user's own code."""
    configurations: list[str] = field(default_factory=list)
    """The configuration files that the program reads."""
    warned: list[str] = field(default_factory=list)
    """Lines that the program printed about a slow path that it takes."""
    record: str = ""
    """The file that holds all that the survey saw."""
    digests: dict[str, str] = field(default_factory=dict)
    """The digests of the files of the user's own code, by path; empty in files of earlier versions."""

    def edited(self, now: AsMeasured) -> list[str]:
        """Return the files of the user's own code that are not as they were surveyed."""
        return [file for file, was in self.digests.items() if now.digests.get(file, was) != was]


@dataclass(frozen=True, kw_only=True)
class OwnValue:
    """What a command gives one of its options, or a value of a configuration file that it names."""

    value: object = None
    problem: str | None = None
    """The reason why it can't be given another one; None if it can."""


@dataclass(frozen=True, kw_only=True)
class AsMeasured:
    """The user's own files as they were when the run was measured. They may be others now, or not be here at all."""

    values: dict[str, OwnValue] = field(default_factory=dict)
    """What the command gave then, by option (`--lr`) or by `file:key`."""
    digests: dict[str, str] = field(default_factory=dict)
    """The digests of the files of its code, of the configuration files whose values are tried, and of the files with
    reported figures, by path."""

    def differs(self, file: str | Path) -> bool:
        """Return whether a file is not known to be as it was then.

        One that nothing is known of is not opened: records that somebody sent may name any.
        """
        known = {Path(path).resolve(): was for path, was in self.digests.items()}.get(Path(file).resolve())
        return known is None or digest(str(file)) != known
