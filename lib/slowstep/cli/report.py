"""`slowstep report`: draw reports again from records, wherever those were measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slowstep.batch.investigations import draw
from slowstep.batch.stored import unusable_records
from slowstep.cli.progress import Terminal
from slowstep.investigation import NotMeasured
from slowstep.report.index import write_index
from slowstep.settings import SettingsError
from slowstep.text.terminal import say


def report(folders: Sequence[Path], outputs: Path) -> int:
    """Draw the named folders, or all in `outputs`, and their index; return 0 if every report could be drawn.

    SettingsError if a folder does not exist.
    """
    if not folders:
        if not outputs.is_dir():
            raise SettingsError(f"{outputs}: there is no such folder; run `make diagnose` first.")
        folders = sorted(p for p in outputs.iterdir() if (p / "records" / "investigation").is_dir())
    status = 0
    for folder in (folder.resolve() for folder in folders):
        if not folder.is_dir():
            raise SettingsError(f"{folder}: there is no such folder; name the folder of an investigation.")
        for line in unusable_records(folder):
            say(line, error=True)
        try:
            runs = draw(folder, Terminal(folder.name))
        except NotMeasured as error:
            say(error, error=True)
            status = 2
            continue
        status = max(status, any(run.status != "ok" for run in runs))
        say(f"open {write_index(folder.parent)}")
    return int(status)
