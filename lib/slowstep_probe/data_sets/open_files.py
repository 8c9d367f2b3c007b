"""Open files and connections that a data set holds: workers that are forked share the place in them."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable
from typing import Any

from slowstep_probe.data_sets.held import all_of, class_of

FILES: dict[tuple[str, str], Callable[[Any], bool]] = {
    ("zipfile", "ZipFile"): lambda one: one.fp is not None,
    ("tarfile", "TarFile"): lambda one: not one.closed,
    ("numpy", "NpzFile"): lambda one: one.zip is not None,
    ("sqlite3", "Connection"): lambda one: one.total_changes >= 0,
    ("h5py", "File"): bool,
    ("h5py", "Group"): bool,
    ("h5py", "Dataset"): bool,
    ("lmdb", "Environment"): lambda one: True,
    ("netCDF4", "Dataset"): lambda one: one.isopen(),
    ("tables", "File"): lambda one: bool(one.isopen),
    ("socket", "socket"): lambda one: one.getpeername() is not None,
    ("multiprocessing", "Connection"): lambda one: not one.closed and one.readable,
    ("psycopg2", "connection"): lambda one: not one.closed,
    ("psycopg", "Connection"): lambda one: not one.closed,
    ("pymysql", "Connection"): lambda one: bool(one.open),
}
"""Classes whose objects stand for a file with a place in it or for a connection, each with a function that tells
whether it is open."""


def opened(data: Any) -> str:
    """Return the attribute or the name by which a data set has an open file or connection; empty if none was found.

    Processes that are forked share the file's place: what one reads moves it for all (fork(2)).
    """
    return next((name for name, one in all_of(data) if _is_open(one)), "")


def _is_open(one: Any) -> bool:
    if isinstance(one, io.IOBase):
        try:
            mode = stat.S_IFMT(os.fstat(one.fileno()).st_mode) if not one.closed and one.readable() else 0
            return mode in (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK)
        except (OSError, ValueError):
            return False
    is_open = FILES.get(class_of(one))
    try:
        return is_open is not None and is_open(one)
    except Exception:  # it was closed, and says so
        return False
