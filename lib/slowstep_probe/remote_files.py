"""Files that a program writes elsewhere by fsspec (`s3://`, `gs://`, `abfs://`, `sftp://`): they are thrown away."""

from __future__ import annotations

import io
import tempfile
from typing import Any

from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches

HERE = {"file", "local", "memory", "data", "asynclocal", "asyncwrapper", "dir", "generic", "reference"}
HERE |= {"cached", "blockcache", "filecache", "simplecache", "zip", "tar", "libarchive", "git", "abstract"}
"""The protocols of files of this machine, and of file systems that pass on to another one what they are asked."""

CHANGING = ("pipe_file", "put_file", "cp_file", "rm_file", "rm", "mkdir", "makedirs", "rmdir", "mv", "touch")
"""The methods that change files. Those with an underscore do what these ask, or are awaited."""


def attach(patches: Patches, late: LateImports) -> None:
    """Begin to throw away what is written elsewhere."""
    names = [f"{line}{name}" for name in CHANGING for line in ("", "_")]
    functions = dict.fromkeys(names, _changes) | {"_open": _opens}
    late.on("fsspec.spec", lambda it: patches.of_subclasses(it.AbstractFileSystem, functions))


def _is_elsewhere(files: Any) -> bool:
    protocol = files.protocol
    return HERE.isdisjoint([protocol] if isinstance(protocol, str) else protocol or ["abstract"])


def _changes(original: Any, files: Any, *args: Any, **kwargs: Any) -> Any:
    return None if _is_elsewhere(files) else original(files, *args, **kwargs)


def _opens(original: Any, files: Any, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
    if set(mode).isdisjoint("wax+") or not _is_elsewhere(files):
        return original(files, path, mode, *args, **kwargs)
    return _ThrownAway()


class _ThrownAway(io.BufferedRandom):
    """A file that is gone when it is closed. A transaction of fsspec ends with `commit` or `discard`."""

    def __init__(self) -> None:
        super().__init__(tempfile.TemporaryFile("w+b", buffering=0))  # noqa: SIM115

    def commit(self) -> None:
        """Do nothing."""

    def discard(self) -> None:
        """Do nothing."""
