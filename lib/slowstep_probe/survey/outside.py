"""What a program has to do with the world outside: the files that it reads and writes, its servers, its programs."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from collections import Counter
from collections.abc import Callable
from itertools import dropwhile
from typing import Any

from slowstep_probe.looks import looking
from slowstep_probe.patches import Patches
from slowstep_probe.places import kind_of
from slowstep_probe.ranks.launched_commands import SCRIPTS
from slowstep_probe.secret import hidden
from slowstep_probe.survey import MOST_FILES
from slowstep_probe.survey.program_lines import first_command, is_own_program
from slowstep_probe.survey.servers import CONNECTS, Servers

CONFIGURATIONS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".gin")
"""The endings of configuration files."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Outside:
    """Notes files, servers and programs. `started` is told the words of a program that is started beside this one."""

    def __init__(self, started: Callable[[str], object]) -> None:
        self._started = started
        self._written: Counter[str] = Counter()
        """Files that were opened for writing."""
        self._servers = Servers()
        self._configurations: dict[str, None] = {}
        """Configuration files of the user's own that were opened for reading, in their order."""

    def attach(self, patches: Patches) -> None:
        """Begin. It lasts until the process ends."""
        patches.look(socket, "getaddrinfo", self._servers.looked_up)
        sys.addaudithook(self._audit)

    def told(self) -> dict[str, list[str]]:
        """Return what was noted but for programs, as plain data: the files written most often come first."""
        return {
            "written": [file for file, _ in self._written.most_common(MOST_FILES)],
            "configurations": [file for file in self._configurations if file not in self._written][:MOST_FILES],
            "servers": list(self._servers.found),
        }

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note files that are opened for writing, configuration files, programs, servers. It may raise nothing."""
        if event == CONNECTS:
            looking(self._servers.connects)(*arguments)
        if event == "subprocess.Popen":
            looking(self._program_started)(arguments[1], arguments[2])
        if event == "os.system":
            looking(self._program_started)(("sh", "-c", arguments[0]), None)
        if event != "open":
            return
        path, _, flags = arguments
        if not isinstance(path, (str, bytes, os.PathLike)) or not isinstance(flags, int):
            return
        name = os.path.abspath(os.fsdecode(path))
        if flags & WRITING:
            self._written[name] += 1
        elif name.endswith(CONFIGURATIONS) and kind_of(name) == "user":
            self._configurations[name] = None

    def _program_started(self, words: Any, folder: Any) -> None:
        """Note a program in Python, or a launcher, that is started beside this one: it may be the one that trains."""
        words = [os.fsdecode(word) for word in words] if isinstance(words, (list, tuple)) else []
        if len(words) == 3 and words[1] == "-c" and os.path.basename(words[0]) in ("sh", "bash"):
            words = first_command(words[2])
        plain = [*dropwhile(lambda word: "=" in word, words)]  # variables may stand before it
        name = os.path.basename(plain[0]) if plain else ""
        if name in SCRIPTS or (name.startswith("python") and is_own_program(plain[1:], folder)):
            self._started(shlex.join(hidden(words)))
