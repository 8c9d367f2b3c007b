"""A survey as the parameter file of an investigation: the command, what was seen of its run, and levels to try."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from slowstep.command.own_files import with_values
from slowstep.command.resolve import resolve
from slowstep.launch.as_before import as_before
from slowstep.launch.surveyed_values import surveyed
from slowstep.launch.surveyor import SurveyOrder, SurveyRecord, survey
from slowstep.processes.lock import locked, require_idle, require_writable
from slowstep.records.store import write_atomically
from slowstep.settings.command import Command, digest
from slowstep.settings.convert import from_plain, to_plain
from slowstep.settings.errors import SettingsError
from slowstep.settings.parse import read_yaml
from slowstep.settings.plain import is_utf8
from slowstep_probe.processes.log import last_words
from slowstep_probe.survey.early_environment import mattering

FILE, RECORD = "investigation.yaml", "survey.json"
"""The names of the parameter file and of the survey's own record, in the investigation's folder."""

BUDGET = {
    "max_pairs": 12,
    "launches": 2,
    "observe_seconds": 30.0,
    "minutes": 15.0,
    "startup_timeout_seconds": 600.0,
}
"""What measuring a command may cost, if nobody says otherwise."""

TIMES_A_START = 3
"""How many times as long as in the survey the first step of a trial may take to come, where that is more than the time
that all have: the two trials of a comparison start beside each other."""

HEAD = """\
# The investigation of a command. `slowstep diagnose` made it from a survey of the command, and takes it as it is: edit
# what is to be tried, and run `slowstep diagnose` on this file.
"""

OWN_OPTIONS = """\
# Options of the command, and values of configuration files that it names. Only you know what they do, so none is tried
# by itself. Take away the `# ` before what you want tried, and put your own in (docs/own-script.md).
# arguments:
#   --batch-size: {levels: [16, 32]}
# files:
#   config.yml:
#     train.sequence_len: {levels: [512, 1024]}
"""
"""The end of the parameter file, which shows where options to try stand."""

OF_PYTORCH = ("optimizer", "loader", "other_loader")
"""The kinds of objects of which nearly every program that trains by PyTorch makes one before its first step."""

NONE_OF_PYTORCH = (
    "; it had made no optimizer and no loader of PyTorch's by then: what another library trains can't be measured"
)
"""What is said of a program that made none of `OF_PYTORCH` and took no step in time."""

RETURNED = "it returned"
"""How a program has ended that came to its end."""


def surveyed_for(
    words: Sequence[str], order: SurveyOrder, outputs: Path, name: str = "", protected: bool = True
) -> tuple[SurveyRecord, Path]:
    """Return the survey of a command as it is typed here, and the folder of its investigation in `outputs`.

    What speaks against that folder is told before anything is run: Busy, an OSError, or SettingsError, which also says
    why there is nothing to diagnose.
    """
    command = replace(_typed_here(words), protected=protected)
    folder = folder_for(command, outputs, name)
    require_idle(folder)
    require_writable(folder)
    if (folder / FILE).exists():
        read_yaml(folder / FILE)
    seen = _surveyed(command, order)
    return seen, folder_for(seen.command, outputs, name)


def _typed_here(words: Sequence[str]) -> Command:
    """Return the command as it is typed here; SettingsError if no parameter file could hold it."""
    command = resolve(words, Path.cwd(), os.environ)
    command = replace(command, env=mattering(os.environ) | command.env)
    named = {"the folder": command.folder, **{f"the variable {name}": value for name, value in command.env.items()}}
    for what, text in (*named.items(), *(("the word", word) for word in command.words)):
        if not is_utf8(text):
            raise SettingsError(
                f"{what} {text!r} holds bytes that are no UTF-8, which the parameter file of an investigation can't "
                "hold; rename it, or reach it by a link with another name"
            )
    return command


def _surveyed(command: Command, order: SurveyOrder) -> SurveyRecord:
    seen = survey(command, order, os.environ)
    steps = f"after {seen.steps} training step{'s' * (seen.steps != 1)}"
    if seen.failed and seen.steps:
        raise SettingsError(
            f"{command}: it fails {steps}, and so would its trials; mend that first: {why_no_step(seen)}"
        )
    if seen.training is None:
        when = steps if seen.steps else "before its first training step"
        why = why_no_step(seen)
        clause = f" {why}" if why.startswith("it ") else f" it failed: {why}" if seen.failed else f": {why}"
        nothing = f"there is nothing to diagnose: {when}{clause.rstrip('.')}"
        raise SettingsError(f"{command}: {nothing}. `slowstep survey` shows what was seen.")
    return seen


def why_no_step(seen: SurveyRecord) -> str:
    """Return why a program took no step, with what it said itself and with what to do."""
    started = next((one["name"] for one in seen.constructed if one["kind"] == "started"), "")
    of_pytorch = seen.steps or any(one["kind"] in OF_PYTORCH for one in seen.constructed)
    bare = "" if of_pytorch else NONE_OF_PYTORCH
    if not seen.ended:
        run = dict.fromkeys(
            one["name"].removeprefix("__main__.") for one in seen.constructed if one["kind"] == "process"
        )
        beside = f"; processes that it had started run {', '.join(run)}, and are followed if they join a process group"
        at = f"it was at {seen.standing or 'an unknown place'} when its time was up (--startup allows more)"
        instead = f"; it had started `{started}`: if that trains, give it in place of this one" if started else ""
        return f"{at}{instead or (beside if run else bare)}"
    if seen.ended.startswith("EOFError: EOF when reading a line"):
        return "it asked a question on standard input, where nobody answers; give the answer by an option"
    if started and not seen.failed:
        return f"{seen.ended}, and had started `{started}`; give that command in place of this one"
    if seen.ended == RETURNED:
        return f"{RETURNED}{bare}"
    said = last_words(seen.output)
    return f"{seen.ended}; its last words: {said}" if "sys.exit" in seen.ended and said else seen.ended


def folder_for(command: Command, outputs: Path, name: str = "") -> Path:
    """Return the folder of a command's investigation: `name`, or that of the program.

    Nothing of another investigation is lost. A folder that belongs to another program, or to a run that a parameter
    file describes, gives way to a numbered one (`train`, `train_2`); SettingsError if it was asked for by `name`.
    """
    if name:
        if owner := other_owner(outputs / name, command):
            raise SettingsError(
                f"the name '{name}' is taken: {outputs / name} holds the investigation of {owner}. Choose another "
                "name, or none: then a free folder is found. Or choose another folder for all results (--outputs)."
            )
        return outputs / name
    own = command.name
    names = itertools.chain([own], (f"{own}_{number}" for number in itertools.count(2)))
    return next(outputs / one for one in names if not other_owner(outputs / one, command))


def other_owner(folder: Path, command: Command | None) -> str:
    """Return what a folder's investigation is of, in words; empty if it is of this command, or if there is none.

    Without a `command` that is what a parameter file describes. A command is another one if it starts another program,
    or the same one in another folder.
    """
    given = _mapping(folder / FILE)
    about = _mapping(folder / "records" / "investigation" / "last.json").get("record")
    described = about.get("settings") if isinstance(about, dict) else None
    for found in (given, described):
        if not isinstance(found, dict) or (found is given and "command" not in given):
            continue
        if found.get("command") is None:
            return f"what {about.get('source') or 'a parameter file'} describes" if command else ""
        try:
            owner = from_plain(Command, found["command"])
            same = command and (owner.folder, owner.program) == (command.folder, command.program)
            return "" if same else f"`{owner}`, started in {owner.folder}"
        except (KeyError, IndexError, TypeError, ValueError):
            continue
    return ""


def write(record: SurveyRecord, folder: Path) -> Path:
    """Write the parameter file of a surveyed command to an investigation's folder, unless one is there; return it.

    What the survey saw is renewed in any case. What somebody wrote into the file stays. Busy if an investigation of
    that name is under way, and SettingsError if the file that is there can't be read: then nothing is written.
    """
    with locked(folder):
        return _written(record, folder)


def _written(record: SurveyRecord, folder: Path) -> Path:
    about, path, private = folder / RECORD, folder / FILE, record.command.has_secrets
    kept, _ = read_yaml(path) if path.exists() else (None, {})
    write_atomically(about, json.dumps(to_plain(record), indent=1) + "\n", private)
    seen = surveyed(record)
    seen = replace(seen, record=str(about.resolve()), digests={file: digest(file) for file in seen.files})
    renewed = {
        "name": folder.name,
        "command": to_plain(record.command),
        "surveyed": to_plain(replace(seen, values=as_before(seen.values, kept))),
    }
    slow_start = TIMES_A_START * (record.first_step_boundary or 0.0)
    limit = max(BUDGET["startup_timeout_seconds"], math.ceil(slow_start))
    budget = BUDGET | {"startup_timeout_seconds": float(limit)}
    first = {"freed_memory": "returned", "levels": "auto", "budget": budget, "allow": {"numerics": False}}
    if isinstance(kept, dict):
        given = {name: value for name, value in (renewed | first).items() if name in renewed or name not in kept}
        text = with_values(path.read_text(encoding="utf-8"), given)
    else:
        text = HEAD + yaml.safe_dump(renewed | first, sort_keys=False, allow_unicode=True, width=120) + OWN_OPTIONS
    write_atomically(path, text, private)
    return path


def _mapping(path: Path) -> dict[str, Any]:
    """Return what a file of YAML or JSON holds; {} if there is none, or nothing that can be read."""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}
    return data if isinstance(data, dict) else {}
