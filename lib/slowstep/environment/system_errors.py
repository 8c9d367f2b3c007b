"""Errors of the system (a full disk, a folder that can't be written, a path through a file), explained in words."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

NO_DIRECTORY = "the working directory has been deleted; change to another (cd) and start again."

ELSEWHERE = "or write results elsewhere with --outputs"

ADVICE = {
    errno.ENOSPC: f"free some space there, {ELSEWHERE} (temporary files: by TMPDIR)",
    errno.EDQUOT: f"free some of your quota, {ELSEWHERE} (temporary files: by TMPDIR)",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: "results can't be written to a file system that is read-only; let them go elsewhere by --outputs",
    errno.EACCES: f"change who may read and write it, {ELSEWHERE}",
    errno.EPERM: f"change who may read and write it, {ELSEWHERE}",
    errno.ENOTDIR: f"a part of this path is a file and no folder; move that file, {ELSEWHERE}",
    errno.EEXIST: f"a file is in the way; move it, {ELSEWHERE}",
    errno.EISDIR: f"a folder stands where a file should be; move it, {ELSEWHERE}",
    errno.ENOENT: "make it, or name another path",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENOMEM: "end other programs, or make the run smaller",
}


class NotAnswered(RuntimeError):
    """The end of a process of the kit's own without an answer, as where memory is short. Its text says which one."""


def explained(error: OSError) -> str:
    """Return the path, what the system said about it, and what to do, on one line."""
    path = error.filename if error.filename is not None else error.filename2
    where = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
    if "temporary directory" in str(error):
        where = os.environ.get("TMPDIR", "") or "the folder for temporary files"
        return f"{where}: no temporary file can be made there; set TMPDIR to a folder with space in it."
    said = error.strerror or str(error)
    advice = ADVICE.get(error.errno or 0, f"look at that path, {ELSEWHERE}")
    return f"{where}: {said}: {advice}." if where else f"the system refuses: {said}: {advice}."


@contextlib.contextmanager
def naming(path: Path, instead: bool = False) -> Iterator[None]:
    """Add `path` to errors of the system that name no path: a write to a full disk says only that it is full.

    With `instead`, `path` also replaces the one that they name, which may be that of a temporary file.
    """
    try:
        yield
    except OSError as error:
        if (error.filename is None or instead) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def temporary_folder() -> Path:
    """Return the folder for temporary files; OSError if TMPDIR names one that can't be used.

    Python would silently take another folder then, which may be too small.
    """
    named = os.environ.get("TMPDIR")
    if named:
        with naming(Path(named)), tempfile.NamedTemporaryFile(dir=named, prefix="slowstep-") as file:
            file.write(b"room")
    return Path(named or tempfile.gettempdir())
