"""The folders of investigations that a user names, by path or by the bare name that they have among the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slowstep.settings import SettingsError
from slowstep.settings.errors import nearest


def named_folders(names: Sequence[Path], outputs: Path) -> list[Path]:
    """Return the folders of these paths or names; SettingsError if there is none of a name, here or in `outputs`."""
    return [_folder(name, outputs) for name in names]


def is_investigation(folder: Path) -> bool:
    """Return whether a folder holds an investigation: the description of what was measured in it."""
    return (folder / "records" / "investigation").is_dir()


def investigations(outputs: Path) -> list[Path]:
    """Return the folders of all investigations in `outputs`, in the order of their names."""
    return sorted(filter(is_investigation, outputs.iterdir())) if outputs.is_dir() else []


def _folder(name: Path, outputs: Path) -> Path:
    there = [folder for folder in (name, outputs / name) if folder.is_dir()]
    if there:
        return next(filter(is_investigation, there), there[0]).resolve()
    near = nearest(name.name, [folder.name for folder in investigations(outputs)])
    raise SettingsError(f"{name}: there is no such folder, here or in {outputs}; name that of an investigation.{near}")
