"""`slowstep export`: investigations as runs of an experiment tracker."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from slowstep.cli.folders import investigations, is_investigation, named_folders
from slowstep.export.exported import exported
from slowstep.export.to_mlflow import to_mlflow
from slowstep.export.to_wandb import to_wandb
from slowstep.settings import SettingsError
from slowstep.text.terminal import say


def export(folders: Sequence[Path], outputs: Path, mlflow: str | None, wandb: Path | None) -> int:
    """Export the named investigations, or all in `outputs`; return 0 if every one could be. SettingsError says why not.

    What a tracker refuses is told in its own words, once for all investigations that it refuses for the same reason.
    """
    if bool(mlflow) == (wandb is not None):
        raise SettingsError("export: name one tracker, by --mlflow URI or by --wandb FOLDER.")
    package = "mlflow" if mlflow else "wandb"
    if importlib.util.find_spec(package) is None:
        raise SettingsError(
            f"export: {package} is not installed; `pip install '.[export]'` in slowstep's clone brings it."
        )
    every = named_folders(folders, outputs) or investigations(outputs)
    missing = [folder for folder in every if not is_investigation(folder)]
    if missing or not every:
        raise SettingsError(f"{missing[0] if missing else outputs}: there is no investigation in this folder.")
    refused: dict[str, list[str]] = {}
    for folder in every:
        one = exported(folder.resolve())
        try:
            where = to_mlflow(one, mlflow) if mlflow else to_wandb(one, wandb)
            say(f"{one.name}: {where}{f'; nothing is decided in it: {one.undecided}' if one.undecided else ''}")
        except Exception as error:  # a tracker's errors have no common class
            refused.setdefault(f"{type(error).__name__}: {error}", []).append(one.name)
    for why, names in refused.items():
        say(f"{', '.join(names)}: {package} refused {'it' if len(names) == 1 else 'them'}: {why}", error=True)
    return int(bool(refused))
