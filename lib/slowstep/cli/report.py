"""`slowstep report`: draw reports again from records, wherever those were measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slowstep.batch.cleanup import unusable_records
from slowstep.batch.investigations import draw
from slowstep.cli.folders import investigations, is_investigation, named_folders
from slowstep.cli.progress import Terminal
from slowstep.investigation import NotMeasured
from slowstep.processes.lock import Busy, require_inside
from slowstep.report.index import write_index
from slowstep.settings import SettingsError
from slowstep.text.terminal import say, warn

UNREAD = 2
"""The exit status where a folder can't be read as an investigation, or where no index can be written."""


def report(folders: Sequence[Path], outputs: Path, interactive: bool = True) -> int:
    """Draw the named folders, or all in `outputs`, and the index beside them; return 0 if all of that could be drawn.

    Beside a folder that is none of an investigation nothing is written. Reports that are not `interactive` hold
    drawings alone. SettingsError if a folder does not exist.
    """
    if not folders and not outputs.is_dir():
        raise SettingsError(f"{outputs}: there is no such folder; run `make diagnose` first.")
    named = named_folders(folders, outputs)
    every = named or investigations(outputs)
    drawn = {folder: _drawn(folder, interactive) for folder in every}
    status = max(drawn.values(), default=0)
    places = [folder.parent for folder in named if drawn[folder] != UNREAD] if named else [outputs]
    for place in dict.fromkeys(places):
        if index := write_index(place, warn):
            say(f"open {index}")
        else:
            status = UNREAD
    return status


def _drawn(folder: Path, interactive: bool) -> int:
    try:
        if is_investigation(folder):  # of any other folder nothing is read, however large it is
            require_inside(folder)
        for line in unusable_records(folder):
            say(line, error=True)
        with Terminal(folder.name) as terminal:
            runs = draw(folder, terminal, interactive)
    except (NotMeasured, Busy) as error:
        say(error, error=True)
        return UNREAD
    return int(any(run.status != "ok" for run in runs))
