"""A command that runs for real, with the changes that an investigation found."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from slowstep.command.given import arguments
from slowstep.launch.probe_entry import entry
from slowstep.settings.command import CHANGES, COPIES, Command
from slowstep.settings.errors import SettingsError
from slowstep_probe.processes.scratch import folder_prefix
from slowstep_probe.ranks.rank import SPAWN, SUBPROCESS

MADE = ("values", "feeding", "freed_memory", "processes", "launcher", "micro_batches")
"""What is done in the command's process, and in which processes."""


def run(command: Command, changes: Mapping[str, Any], env: Mapping[str, str]) -> NoReturn:
    """Become the command's process, with its program changed. What it prints, reads and returns is its own."""
    if changes["nodes"] > 1:
        raise SettingsError(
            f"{command}: it trains on several nodes, where each would need the changes; make them in its code, as "
            "changes.md names them"
        )
    if changes["processes"] and changes["launcher"] in (SPAWN, SUBPROCESS):
        raise SettingsError(
            f"{command}: it starts its processes itself, and each of them would do again what it does before; make the "
            "changes in its code, as changes.md names them"
        )
    scratch = tempfile.mkdtemp(prefix=folder_prefix("given"))  # removed by the next start after it has ended
    words = arguments(command, changes["given"], Path(scratch) / COPIES, links=True)
    order = {
        "arguments": words,
        "folder": command.folder,
        "command": [command.python, *words],
        **{name: changes[name] for name in MADE},
    }
    words = [command.python, *command.options, "-c", entry("changed"), json.dumps(order)]
    os.execve(command.python, words, dict(env) | command.env)


def changes_in(folder: Path) -> dict[str, Any]:
    """Return the changes that an investigation left in its final/; SettingsError if there are none."""
    path = folder / CHANGES
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        # records of one process, and those of earlier versions, have none of these
        known = {"processes": 0, "launcher": "", "micro_batches": 0, "nodes": 0, "program": ""} | found
        return {name: known[name] for name in (*MADE, "given", "nodes", "program")} | {"folder": folder.resolve()}
    except OSError:
        raise SettingsError(
            f"{path}: there is no such file; give the folder final/ of a command's investigation"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise SettingsError(f"{path}: it holds no changes; run `slowstep diagnose` on the command again") from None
