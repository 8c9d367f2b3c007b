"""Records on disk: versioned JSON, written atomically, named by the hash of what determines them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

from slowstep.environment.system_errors import naming
from slowstep.records.plain_files import read_plain
from slowstep.settings.convert import from_plain, to_plain
from slowstep_probe.processes.scratch import file_prefix

VERSION = 5
"""Raise it when a record's shape or meaning changes; records of another version are measured again."""

UNUSABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""The errors of reading a file that is no record: torn, of another shape, a folder or a link, nested without end."""

T = TypeVar("T")


def identity(*determinants: Any) -> str:
    """Return a short name for what determines a measurement. Equal content gives an equal name."""
    text = json.dumps(to_plain([VERSION, *determinants]), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Store:
    """The records folder of one investigation."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.unusable: dict[Path, str] = {}
        """Records that were asked for and can't be used, each with the reason."""

    def path(self, kind: str, name: str) -> Path:
        """Return the path of a record: records/<kind>/<name>.json; ValueError if that would lie elsewhere."""
        if kind in ("", ".", "..") or "/" in kind + name:
            raise ValueError(f"{kind}/{name}: is the name of no record")
        return self.folder / kind / f"{name}.json"

    def read(self, record_type: type[T], kind: str, name: str) -> T | None:
        """Return the record; None where there is none, or none that can be used.

        A record that can't be used is noted in `unusable`, except one of an earlier version.
        """
        path = self.path(kind, name)
        try:
            data = _envelope(path)
            if data["version"] < VERSION:
                return None
            return from_plain(record_type, data["record"])
        except FileNotFoundError:
            return None
        except UNUSABLE as error:
            self.unusable[path] = _reason(error)
            return None

    def drop(self, kind: str, name: str) -> None:
        """Remove the record. A file that is no record of this kit is renamed and kept."""
        _set_aside(self.path(kind, name))
        self.path(kind, name).unlink(missing_ok=True)

    def names(self, kind: str) -> list[str]:
        """Return the names of all records of a kind, in their order."""
        return sorted(path.stem for path in (self.folder / kind).glob("*.json"))

    def every(self, record_type: type[T], kind: str) -> list[T]:
        """Return all records of a kind that can be read, in the order of their names."""
        return [found for name in self.names(kind) if (found := self.read(record_type, kind, name)) is not None]

    def write(self, record: Any, kind: str, name: str, private: bool = False, **about: Any) -> Path:
        """Write `record` and return its path. `about` stands beside it for people who open the file.

        Its owner alone may read it if it is `private`. OSError names the file.
        """
        data = {"version": VERSION, "kind": kind, **about, "record": to_plain(record)}
        path = self.path(kind, name)
        _set_aside(path)
        write_atomically(path, json.dumps(data, indent=1, default=str), private)
        return path


def _envelope(path: Path) -> dict[str, Any]:
    """Return a record's JSON with its version and its kind; ValueError if the file is none, or of a later version."""
    data = json.loads(read_plain(path).decode("utf-8"))
    if not isinstance(data, dict) or type(data.get("version")) is not int:
        raise ValueError("it is no record")
    if data["version"] > VERSION:
        raise ValueError(f"it was written by a later version of slowstep (record version {data['version']})")
    if data.get("kind") != path.parent.name or "record" not in data:
        raise ValueError("it is no record of the kind that its folder is for")
    return data


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"it is torn or no JSON ({error.msg} in line {error.lineno})"
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, OSError):
        return f"it can't be read ({error.strerror})"
    return " ".join(str(error).split())[:200] if isinstance(error, ValueError) else "it has another shape"


def _set_aside(path: Path) -> None:
    """Rename a file that is in a record's place, unless it is a record of this version or an earlier one.

    Somebody may still need it.
    """
    try:
        _envelope(path)
    except FileNotFoundError:
        return
    except UNUSABLE:
        count = 1
        while os.path.lexists(aside := path.with_name(f"{path.name}.aside{count}")):
            count += 1
        os.rename(path, aside)


def write_atomically(path: Path, text: str, private: bool = False) -> None:
    """Write a file so that a reader sees the old content or the new, even if the process dies; OSError names it.

    It has the rights of any new file of this process, or is `private`: its owner alone may read it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path, instead=True):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=file_prefix(path.name))
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if not private:
                os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _umask() -> int:
    """Return the rights that this process takes from new files. It can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
