"""A folder in which home and one job leave each other messages: pickled files that appear whole or not at all.

Network file systems tell a folder's content late, and a file's absence later still. So nobody asks for a file by its
name before it was listed. The folder is only readable by its owner, as unpickling runs what a file says.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
from pathlib import Path
from typing import Any

from slowstep_probe.processes.scratch import file_prefix

HOME, END = "home", "end"
"""The files beside the mailboxes by which home shows that it lives, and asks all jobs to end."""

BEAT_SECONDS = 15.0
"""The seconds from one sign of life to the next."""

SILENT_SECONDS = 180.0
"""The seconds without a sign of life after which home counts as gone. A network file system may hide one for 60 s."""


class Mailbox:
    """The mailbox of one job."""

    def __init__(self, folder: Path):
        self.folder = folder

    def open(self) -> None:
        """Make the folder."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, name: str, message: Any) -> None:
        """Leave a message; it replaces an earlier one of that name."""
        half = self.folder / f"{file_prefix(name)}half"
        half.write_bytes(pickle.dumps(message))
        os.replace(half, self.folder / name)

    def take(self, name: str) -> Any:
        """Return the message of a name that was listed; None if it can't be read now, since it is being replaced."""
        try:
            return pickle.loads((self.folder / name).read_bytes())
        except OSError:
            return None

    def names(self) -> list[str]:
        """Return the names of all messages, in their order; none where the folder is gone."""
        try:
            return sorted(name for name in os.listdir(self.folder) if not name.startswith("."))
        except OSError:
            return []

    def end(self) -> None:
        """Ask the job to end."""
        with contextlib.suppress(OSError):
            (self.folder / END).touch()

    @property
    def ended(self) -> bool:
        """Return whether home has asked this job or all jobs to end, or has taken the mailboxes away."""
        try:
            return END in os.listdir(self.folder.parent) or END in os.listdir(self.folder)
        except FileNotFoundError:
            return True
        except OSError:
            return False


class Heartbeat:
    """Home's sign of life: a file that is touched again and again, until `stop`."""

    def __init__(self, folder: Path):
        self._file, self._stopped = folder / HOME, threading.Event()
        self._file.touch()
        threading.Thread(target=self._beat, daemon=True, name="slowstep-slurm-heartbeat").start()

    def stop(self) -> None:
        """Stop beating."""
        self._stopped.set()

    def _beat(self) -> None:
        while not self._stopped.wait(BEAT_SECONDS):
            try:
                os.utime(self._file)
            except OSError:
                continue  # the file system may answer again
