"""The files of final/ for a command: what to change in its program, and changed copies of its configuration files.

They are made of the user's own files, as these were when the run was measured. A file that is another one now, or is
not here, gives no patch and no copy: those that were made for the same changes before stay.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slowstep.command.given_values import arguments, split
from slowstep.command.own_files import holds_secrets
from slowstep.final.choice import Choice
from slowstep.final.code_changes import changes_page, changes_record, edits
from slowstep.final.decision_record import decision
from slowstep.final.patch import PATCH, by_hand, patch, to_patch
from slowstep.investigation.lab import Lab
from slowstep.settings.command import CHANGES, COPIES, Command
from slowstep.settings.errors import SettingsError
from slowstep.settings.settings import Settings
from slowstep.text.markdown import code


def command_files(lab: Lab, choice: Choice, command: Command) -> dict[str, str]:
    """Return the texts of the files by name, and write the changed copies; OSError names one that can't be written."""
    folder, settings = lab.folder / "final", choice.settings
    record = json.dumps(changes_record(settings), indent=1) + "\n"
    same = _text(folder / CHANGES) == record
    by_file = to_patch(edits(choice), command)
    others = [path for path in by_file if _is_another(path, settings)]
    fresh = {path: changes for path, changes in by_file.items() if path not in others}
    kept = _text(folder / PATCH) if others and same else ""
    written = kept or patch(fresh, command)
    notes = [*_of_patch(others, command, written, bool(kept)), *_by_hand(by_hand({} if kept else fresh), command)]
    notes += _copied(settings, command, folder / COPIES, same)
    return {
        "changes.md": changes_page(lab, choice, command, written, notes),
        **({PATCH: written} if written else {}),
        CHANGES: record,
        "decision.md": decision(lab, choice),
    }


def _text(path: Path) -> str:
    """Return the text of a file; empty if there is none, or none that can be read."""
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _is_another(path: Path, settings: Settings) -> bool:
    """Return whether one of the user's files is not here, or not as it was when the run was measured."""
    return not path.is_file() or (settings.as_measured is not None and settings.as_measured.differs(path))


def _of_patch(others: Sequence[Path], command: Command, written: str, kept: bool) -> list[str]:
    """Return what the patch lacks, as sentences."""
    if not others:
        return []
    then = f"`{PATCH}` is the one that was made of it before" if kept else f"`{PATCH}` holds none of its lines"
    none = "no patch is written for it: edit the lines that are named here by hand"
    return [f"{_named(others, command)}, so {then if written else none}."]


def _by_hand(left: Sequence[Mapping[str, Any]], command: Command) -> list[str]:
    """Return the changes that no patch of these files can hold, as a sentence."""
    if not left:
        return []
    named = [f"{one['argument']}={one['after']!r}" for one in left]
    places = [f"{command.shown(one['place']['file'])}:{one['place']['line']}" for one in left]
    shown = "; ".join(f"{code(what)} at {code(place)}" for what, place in zip(named, places, strict=True))
    return [f"**`{PATCH}` lacks these, edit them by hand:** {shown}."]


def _copied(settings: Settings, command: Command, folder: Path, same: bool) -> list[str]:
    """Write changed copies of the configuration files that the command names; return what can't be, as sentences."""
    files = [Path(command.folder, name) for name in dict.fromkeys(split(name)[0] for name in settings.given) if name]
    others = [path for path in files if _is_another(path, settings)]
    if not others and settings.given:
        try:
            if secret := [path for path in files if holds_secrets(path)]:
                shutil.rmtree(folder, ignore_errors=True)
                return [_of_secrets(secret, command)]
            arguments(command, settings.given, folder)
            return []
        except SettingsError:  # of records that hold no digests
            others = files
    if not others:
        return []
    it = "it" if len(others) == 1 else "them"
    if same and folder.is_dir():
        return [f"{_named(others, command)}, so the changed copy of {it} is the one that was made before."]
    shutil.rmtree(folder, ignore_errors=True)  # what is there holds other changes
    return [f"{_named(others, command)}, so no changed copy of {it} is written: give {it} the values named here."]


def _of_secrets(files: Sequence[Path], command: Command) -> str:
    named = ", ".join(code(command.shown(str(path))) for path in files)
    holds, it = ("holds", "it") if len(files) == 1 else ("hold", "them")
    none = f"no changed copy of {it} is written here, where others may read it: give {it} the values named here"
    return f"{named} {holds} what reads as a secret (a key, a password), so {none}."


def _named(files: Sequence[Path], command: Command) -> str:
    """Return which files are not those that were measured, as a clause."""
    named = ", ".join(code(command.shown(str(path))) for path in files)
    were = "was" if len(files) == 1 else "were"
    return f"{named} can't be read here, or {were} edited after this was measured"
