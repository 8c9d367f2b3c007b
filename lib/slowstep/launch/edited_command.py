"""A command that was edited in its parameter file, where a survey has written down what became of its words."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

from slowstep.records.store import UNUSABLE
from slowstep.settings import Loaded
from slowstep.settings.command import Command, Surveyed
from slowstep.settings.convert import from_plain

NOT_STARTED = ("protected", "python_version", "torch_version")
"""The fields of a command that say nothing of what is started."""


def edited_command(loaded: Loaded) -> list[str]:
    """Return that the command of a parameter file is not the one that was surveyed, with what to do; [] if it is.

    The survey has resolved its words into a program with arguments, and the run's values, its lines and the levels are
    those of that program. So an edited word has no effect, and an edited argument has half of its effect.
    """
    command = loaded.settings.command
    before = _surveyed(loaded.settings.surveyed)
    if before is None or command is None:
        return []
    names = [one.name for one in fields(Command) if one.name not in NOT_STARTED]
    edited = [f"command.{name}" for name in names if getattr(before, name) != getattr(command, name)]
    if not edited:
        return []
    named = "" if loaded.settings.name == before.name else f" --name {loaded.settings.name}"
    words = str(command) if command.words != before.words else "COMMAND"
    again = f"`slowstep diagnose{named} -- {words}` in {command.folder}"
    return [
        f"{loaded.place(edited[0])}: {' and '.join(edited)}: not as surveyed, and the run's values and what is tried "
        f"are those of `{before}`. Undo the edit, or have the command surveyed as you would type it, by {again}; "
        "what else you wrote into the file stays."
    ]


def _surveyed(surveyed: Surveyed) -> Command | None:
    """Return the command that the record of a survey is about; None if the record is gone, or is none."""
    try:
        found = json.loads(Path(surveyed.record).read_text(encoding="utf-8"))
        return from_plain(Command, found["command"])
    except UNUSABLE:
        return None
