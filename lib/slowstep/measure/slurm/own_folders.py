"""Folders that nobody else can change. Home and its jobs run what they read in theirs: functions that were pickled.

Whoever may write to a folder may also rename what is in it, and put something else in its place. So the folder of the
outputs and all below it count. Those above it are the user's affair (docs/slurm.md).
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

from slowstep.measure.slurm.jobs import NoNode

ROOT = 0
"""The number of the user who may change everything anyway."""


def close_to_others(folder: Path, investigation: Path) -> bool:
    """Let nobody else change a folder, nor what leads to it from the outputs on; return whether others could so far.

    The investigation's own folders are closed to others. NoNode for a folder of another user, and for that of the
    outputs if others may write to it: they may have investigations of their own there. With the sticky bit it will do,
    since they can't rename what is not theirs then.
    """
    others_could = False
    for path in _from_outputs(folder.resolve(), investigation.resolve()):
        found = path.lstat()
        if found.st_uid not in (os.getuid(), ROOT):
            raise NoNode(
                f"measure.slurm: {path} belongs to {_name_of(found.st_uid)}, who could change what the jobs run in "
                "your name; give a folder of your own by --outputs"
            )
        inside = path.is_relative_to(investigation.resolve())
        if not _others_write(found) or (found.st_mode & stat.S_ISVTX and not inside):
            continue
        if found.st_uid != os.getuid() or not inside:
            raise NoNode(
                f"measure.slurm: others may write to {path} (mode {stat.S_IMODE(found.st_mode):o}), and could change "
                f"what the jobs run in your name; `chmod g-w,o-w {path}`, or `chmod +t {path}` if others have "
                "investigations there, or give another folder by --outputs"
            )
        path.chmod(stat.S_IMODE(found.st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
        others_could = True
    return others_could


def _from_outputs(folder: Path, investigation: Path) -> list[Path]:
    """Return the folders that lead to one, and itself, from the outputs on; from the root if a link leads elsewhere."""
    every = [*reversed(folder.parents), folder]
    return [path for path in every if path.is_relative_to(investigation.parent)] or every


def _others_write(found: os.stat_result) -> bool:
    """Return whether others may write to a folder."""
    return bool(found.st_mode & stat.S_IWOTH) or bool(found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid))


def _is_private(group: int) -> bool:
    """Return whether a group is a user's own: many systems give each user one of his name, where he is alone."""
    try:
        own, known = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return known.gr_name == own and set(known.gr_mem) <= {own}


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
