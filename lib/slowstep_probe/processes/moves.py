"""Files and folders that a program moves from one overlay to another, as it could without them.

The folders in the root have an overlay each, and the system moves nothing from one to another (EXDEV), nor a folder
that lies beneath an overlay. On a machine with one disk a program may do both: it replaces a file by one that it has
written in /tmp, or renames the folder of its last run. So what the disks beneath would allow is done by a copy, as `mv`
does it. Programs in C are left to themselves; `mv` needs no help.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any

Move = Callable[..., None]


def allow(disks: Mapping[str, int]) -> None:
    """Let `os.rename`, `os.replace` and `os.link` of this process go from one overlay to another on the same disk.

    `disks` holds the number of the disk beneath each folder that has an overlay, or that is let through.
    """

    def is_one_disk(source: Any, target: Any) -> bool:
        found = {_disk(path, disks) for path in (source, target)}
        return len(found) == 1 and None not in found

    os.rename = _copying(os.rename, is_one_disk, _moved)
    os.replace = _copying(os.replace, is_one_disk, _moved)
    os.link = _copying(os.link, is_one_disk, _linked)


def _copying(
    original: Move, is_one_disk: Callable[[Any, Any], bool], instead: Callable[[Any, Any, Move], None]
) -> Move:
    """Return a function of `os` that does something `instead` where the overlays alone are in its way."""

    def around(
        src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None, **more: Any
    ) -> None:
        try:
            original(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, **more)
        except OSError as error:
            within = src_dir_fd is not None or dst_dir_fd is not None  # no path tells where that is
            if error.errno != errno.EXDEV or within or not is_one_disk(src, dst):
                raise
            instead(src, dst, original)

    around.__name__, around.__doc__ = original.__name__, original.__doc__
    return around


def _moved(source: Any, target: Any, move: Move) -> None:
    """Move a file, a link or a folder by a copy, and refuse what the system would refuse."""
    if os.path.isdir(source) and not os.path.islink(source):
        if os.path.lexists(target):
            os.rmdir(target)  # an empty folder may be replaced
        shutil.copytree(source, target, symlinks=True)
        shutil.rmtree(source)
        return
    copy = os.fsdecode(target) + f".{os.getpid()}"
    try:
        shutil.copy2(source, copy, follow_symlinks=False)
        move(copy, os.fsdecode(target))
    except BaseException:
        if os.path.lexists(copy):
            os.unlink(copy)
        raise
    os.unlink(source)


def _linked(source: Any, target: Any, link: Move) -> None:
    """Copy a file to a place where there is none; to give it a second name there is not possible."""
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target)
    shutil.copy2(source, target, follow_symlinks=False)


def _disk(path: Any, disks: Mapping[str, int]) -> int | None:
    """Return the disk beneath the folder that holds a path; None if that lies in no folder of `disks`."""
    folder = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(os.fsdecode(path)))), "")
    found = [each for each in disks if folder.startswith(os.path.join(each, ""))]
    return disks[max(found, key=len)] if found else None
