"""Files that others may have made: they are read and shared if they are regular, reached by no link, and not too large.

A folder that was sent may hold a link to what its reader keeps for himself, a pipe that nothing is written to, or a
file that fills the memory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

LARGEST = 2**29
"""The most bytes of such a file. A timed step takes some 100 bytes in a record, so it has room for five million."""


def read_plain(path: Path) -> bytes:
    """Return the content of a regular file; ValueError says what is there instead, OSError what the system refuses.

    A link is not followed, and a pipe is not waited for.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError("it is a symbolic link") from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is no regular file")
        if found.st_size > LARGEST:
            raise ValueError(f"it has {found.st_size / 2**20:.0f} MiB, and {LARGEST // 2**20} MiB at most are read")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(found.st_size)
    finally:
        os.close(descriptor)


def is_plain(path: Path) -> bool:
    """Return whether a path is that of a regular file, and of no link, that is not too large."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST


def plain_files(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder and below that are plain. No link is followed, and the folder itself may be none."""
    if folder.is_symlink():
        return
    for parent, _, names in os.walk(folder):
        yield from (path for name in names if is_plain(path := Path(parent, name)))
