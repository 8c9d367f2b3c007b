"""Records on disk: versioned JSON, written atomically, named by the hash of what determines them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

from slowstep.processes.scratch import file_prefix
from slowstep.settings.convert import from_plain, to_plain

VERSION = 2
"""Raise it when a record's shape or meaning changes; records of another version are measured again."""

T = TypeVar("T")


def identity(*determinants: Any) -> str:
    """A short name for what determines a measurement; equal content gives an equal name."""
    text = json.dumps(to_plain([VERSION, *determinants]), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Store:
    """The records folder of one investigation."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, kind: str, name: str) -> Path:
        """Where a record lies: records/<kind>/<name>.json."""
        return self.folder / kind / f"{name}.json"

    def read(self, record_type: type[T], kind: str, name: str) -> T | None:
        """The record, or None where there is none of this version; one that can't be read counts as absent."""
        try:
            data = json.loads(self.path(kind, name).read_text(encoding="utf-8"))
            if data["version"] != VERSION:
                return None
            return from_plain(record_type, data["record"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, record: Any, kind: str, name: str, **about: Any) -> Path:
        """Write `record`; `about` stands beside it for people who open the file."""
        data = {"version": VERSION, "kind": kind, **about, "record": to_plain(record)}
        path = self.path(kind, name)
        write_atomically(path, json.dumps(data, indent=1, default=str))
        return path


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old content or the new, whatever dies in between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=file_prefix(path.name))
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
