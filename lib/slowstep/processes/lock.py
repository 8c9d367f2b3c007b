"""The lock of an investigation: one process at a time works on it, and only inside its folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from slowstep.environment.system_errors import naming

MOMENT = 0.05
"""Seconds after which a lock is tried once more."""


class Busy(RuntimeError):
    """An investigation that can't be worked on now: another process does so, or its folder is unsafe to write in."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of an investigation's folder, which is made if it is not there; Busy says why this is impossible.

    The lock is the kernel's (flock), so it is released when the process that holds it ends, in whatever way. The file
    `.lock` is opened as it is, never emptied, and never through a link.
    """
    require_inside(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Busy(f"{path}: the lock can't be opened: {error.strerror}. Remove what is there.") from None
    try:
        try:
            _take(descriptor)
        except BlockingIOError:
            raise Busy(_at_work(folder)) from None
        except OSError as error:
            why = f"this file system can't lock files ({error.strerror})"
            raise Busy(f"{path}: {why}; give --outputs on a local disk.") from None
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> None:
    """Take the lock for this process alone; BlockingIOError if another process works there.

    Whoever only asks (`is_locked`) holds it for a moment, which a second try outlasts.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(MOMENT)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_locked(folder: Path) -> bool:
    """Return whether a process works on an investigation now."""
    try:
        descriptor = os.open(folder / ".lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system that locks nothing, where nothing is ever under way
        return False
    finally:
        os.close(descriptor)
    return False


def require_writable(folder: Path) -> None:
    """Write a byte in an investigation's folder, so that nothing is tried or measured in vain.

    Folders that are made for that are removed again. Busy if it leads elsewhere, and OSError if the system refuses.
    """
    require_inside(folder)
    missing = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    with naming(folder, instead=True):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"room")
        finally:
            for path in missing:
                with contextlib.suppress(OSError):  # another process has filled it by now
                    path.rmdir()


def require_idle(folder: Path) -> None:
    """Raise Busy if a process works on an investigation now."""
    if is_locked(folder):
        raise Busy(_at_work(folder))


def _at_work(folder: Path) -> str:
    return f"{folder}: another slowstep is working there; wait for it or stop it."


def require_inside(folder: Path) -> None:
    """Raise Busy if the folder is a link, if a link in it leads out of it, or if a pipe or a device is in it.

    What is read or changed there is then somebody else's, or never comes to an end.
    """
    if folder.is_symlink():
        raise Busy(
            f"{folder}: is a symbolic link to {os.readlink(folder)}, where slowstep would overwrite files; "
            "remove the link, or give another folder by --outputs."
        )
    inside = folder.resolve()
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent, name) for name in [*folders, *files]):
            kind = _kind(path)
            if kind == stat.S_IFLNK and not _target(path).is_relative_to(inside):
                raise Busy(
                    f"{path}: is a symbolic link that leads out of the investigation's folder, to "
                    f"{os.readlink(path)}, where nothing may be read or changed; remove the link."
                )
            if kind not in (stat.S_IFLNK, stat.S_IFREG, stat.S_IFDIR, None):
                raise Busy(f"{path}: is neither a file nor a folder, and would be waited for; remove it.")


def _kind(path: Path) -> int | None:
    """Return the kind of what stands at a path (`stat.S_IFREG`, …); None if that is gone again."""
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except FileNotFoundError:
        return None


def _target(link: Path) -> Path:
    """Return the target of a link; the root folder if it leads in a circle."""
    try:
        return link.resolve()
    except (OSError, RuntimeError):
        return Path("/")
