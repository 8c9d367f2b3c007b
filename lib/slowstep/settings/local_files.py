"""The local files that settings name, told by their names, sizes and times of change."""

from __future__ import annotations

import importlib.machinery
from collections.abc import Iterable
from pathlib import Path

OF_CODE = (".py", ".pyx", ".so", ".pyd", ".c", ".cc", ".cpp", ".cu", ".h", ".json", ".toml", ".yaml", ".yml")
"""What a package consists of: code, what is compiled, and files that configure it. Logs and caches are none."""


def code_of(workload: str) -> list[str]:
    """Return the files of the module or the package of a user's own workload, `module:Class`; [] if it is not here."""
    module, colon, _ = workload.partition(":")
    found = importlib.machinery.PathFinder.find_spec(module.partition(".")[0]) if colon else None
    if found is None:
        return []
    folders = found.submodule_search_locations
    if not folders:
        return [found.origin]
    files = [str(file) for folder in folders for file in Path(folder).rglob("*")]
    return sorted(file for file in files if file.endswith(OF_CODE))


def content_of(names: Iterable[str]) -> list[str]:
    """Return name, size and time of change of each file, and of each file in a folder, as one text."""
    found = []
    for path in map(Path, names):
        files = sorted(path.glob("*")) if path.is_dir() else [path] if path.is_file() else []
        found += [f"{f.name} {f.stat().st_size} {f.stat().st_mtime_ns}" for f in files if f.is_file()]
    return found
