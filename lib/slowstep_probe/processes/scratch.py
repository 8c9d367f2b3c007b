"""Temporary folders and files. Those of processes that were killed are removed at the next start.

Their names hold the mark of the process that made them (`slowstep_probe.processes.process_mark`). So only what the kit
made itself is ever removed: by the process that made it, or when that has provably ended.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from slowstep_probe.processes.process_mark import MARK, is_dead, is_known, mark

FOLDER = re.compile(rf"slowstep-[a-z]+-(?P<owner>{MARK})-[a-z0-9_]{{8}}")
FILE = re.compile(rf"\..+\.(?P<owner>{MARK})\.[a-z0-9_]{{8}}")


def folder_prefix(kind: str) -> str:
    """Return the prefix of a temporary folder's name, for `tempfile.mkdtemp` and `TemporaryDirectory`.

    What is left of such folders when this interpreter exits is removed: a signal may come before anything holds them.
    """
    _remove_own_at_exit(os.getpid())
    return f"slowstep-{kind}-{mark()}-"


def file_prefix(name: str) -> str:
    """Return the prefix of a temporary file's name that will replace the file called `name`, for `mkstemp`."""
    return f".{name}.{mark()}."


def places() -> list[Path]:
    """Return the folders where temporary folders are made: TMPDIR, and others if its path is too long for a socket."""
    return list(dict.fromkeys([Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")]))


def remove_abandoned_folders(*parents: Path) -> list[Path]:
    """Remove the temporary folders of processes that have ended, and return them; in `places` if no parent is given."""
    removed = []
    for path in [path for parent in parents or places() for path in _entries(parent)]:
        if _abandoned(path, FOLDER, stat.S_ISDIR):
            remove_folder(str(path))
            removed.append(path)
    return removed


def remove_abandoned_files(folder: Path) -> list[Path]:
    """Remove the half-written files of processes that have ended, and return them.

    They are looked for in `folder` and below; links are not followed.
    """
    removed = []
    for parent, _, _ in os.walk(folder):
        for path in _entries(Path(parent)):
            if _abandoned(path, FILE, stat.S_ISREG):
                with contextlib.suppress(OSError):
                    path.unlink()
                    removed.append(path)
    return removed


def remove_folder(folder: str) -> None:
    """Remove a folder with all that is in it, as far as that is possible. An overlay leaves folders without rights.

    A link stays, and so does what it leads to.
    """
    if os.path.islink(folder):
        return
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _remove_own_at_exit(pid: int) -> None:
    """Remove this process's folders when its interpreter exits, after what was registered later for its exit."""
    own = mark()

    def remove() -> None:
        if os.getpid() == pid and is_known(own):
            for path in [path for place in places() for path in _entries(place)]:
                if _ours(path, FOLDER, stat.S_ISDIR) == own:
                    remove_folder(str(path))

    atexit.register(remove)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _abandoned(path: Path, shape: re.Pattern[str], is_kind: object) -> bool:
    return is_dead(_ours(path, shape, is_kind))


def _ours(path: Path, shape: re.Pattern[str], is_kind: object) -> str:
    """Return the mark in the name of what a process of this user made; empty if it is of another kind, or a link."""
    named = shape.fullmatch(path.name)
    if not named:
        return ""
    try:
        found = path.lstat()
    except OSError:
        return ""
    return named["owner"] if is_kind(found.st_mode) and found.st_uid == os.getuid() else ""
