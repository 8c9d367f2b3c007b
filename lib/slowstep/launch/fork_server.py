"""The fork server, which imports once what every trial needs, and the environment variables of the trials."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from multiprocessing import forkserver, util
from pathlib import Path

from slowstep.environment.system_errors import NO_DIRECTORY
from slowstep.processes.scratch import FOLDER, folder_prefix, places
from slowstep.workloads.stdlib_text import cache_folder

ENVIRONMENT = {
    # else tokenizers warns and switches itself off after the loader's fork, in some arms and not in others
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # asking whether there is a device must not initialise the driver in the fork server
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    # a killed trial's semaphores are cleaned up by the tracker, which need not say so on the user's terminal
    "PYTHONWARNINGS": "ignore:resource_tracker:UserWarning",
}

LONGEST_SOCKET = 107
"""The most characters of a socket's path that the kernel takes (unix(7))."""

SOCKET_NAMES = len("/pymp-12345678/listener-12345678")
"""The number of characters that multiprocessing adds to the path of the folder."""


def context() -> multiprocessing.context.ForkServerContext:
    """Return the fork server's context; FileNotFoundError if the working directory has been deleted.

    The server imports what trials need while the caller goes on. It gets environment variables of its own, and the
    caller's stay as they are.
    """
    _working_directory()
    _standard_streams()
    _temporary_folder()
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["slowstep.trial.preload"])
    with _environment(trial_environment(os.environ)):
        forkserver.ensure_running()
    return server


def trial_environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a trial, made from the caller's `own`."""
    found = dict(own)
    found["PYTHONWARNINGS"] = without_errors(found.get("PYTHONWARNINGS", ""))
    for name, value in ENVIRONMENT.items():
        found[name] = found.get(name) or value
    if not found.get("HF_HOME") and not _can_be_written(Path("~/.cache/huggingface").expanduser()):
        found["HF_HOME"] = str(cache_folder() / "huggingface")
    if found.get("OMP_WAIT_POLICY", "").lower() == "active":
        del found["OMP_WAIT_POLICY"]  # an idle arm would spin on the other arm's cores for ever
    # a trial is one process on one device; Trainer would spread a batch over all that it sees
    found["CUDA_VISIBLE_DEVICES"] = found.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    return found


@contextlib.contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set the environment variables to `wanted` while the `with` block runs. Those that are equal are left alone."""
    changed = {name for name in {*os.environ, *wanted} if os.environ.get(name) != wanted.get(name)}
    own = {name: os.environ.get(name) for name in changed}
    try:
        _set_environment({name: wanted.get(name) for name in changed})
        yield
    finally:
        _set_environment(own)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def without_errors(warnings: str) -> str:
    """Return the value of PYTHONWARNINGS without the filters that turn a library's warning into an error."""
    kept = [each for each in warnings.split(",") if not "error".startswith(each.partition(":")[0].strip() or "-")]
    return ",".join(kept)


def _can_be_written(folder: Path) -> bool:
    """Return whether files can be made in a folder, which is itself made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


@functools.cache
def _temporary_folder() -> None:
    """Make multiprocessing put its socket into a folder that the next start removes if this process is killed.

    The path of a socket has to be short, and TMPDIR may be long. In a folder of the kit's own nothing needs to be done.
    """
    here = tempfile.gettempdir()
    if any(FOLDER.fullmatch(part) for part in Path(here).parts) and len(here) + SOCKET_NAMES <= LONGEST_SOCKET:
        return
    own = folder_prefix("server")
    for parent in places():
        if len(f"{parent}/{own}12345678") + SOCKET_NAMES > LONGEST_SOCKET or not os.access(parent, os.W_OK):
            continue
        folder = tempfile.mkdtemp(prefix=own, dir=parent)
        before, tempfile.tempdir = tempfile.tempdir, folder
        try:
            util.get_temp_dir()  # made once, and used for whatever follows
        finally:
            tempfile.tempdir = before
        # right after multiprocessing has removed its own, which it does with the priority -100
        util.Finalize(None, shutil.rmtree, args=(folder, True), exitpriority=-101)
        return


def _working_directory() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise FileNotFoundError(NO_DIRECTORY) from None


def _standard_streams() -> None:
    """Open standard input, output and error where they are closed, so that no pipe to a trial takes their numbers."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115  for as long as the process lives
