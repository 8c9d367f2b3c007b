"""The start of a guarded process in an interpreter of its own, where a warm one would have made imports already."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Sequence
from typing import IO

from slowstep.launch.probe_entry import entry
from slowstep.launch.warm_interpreter import of_the_kit
from slowstep_probe.plain import to_plain
from slowstep_probe.processes.guard import Order
from slowstep_probe.processes.tree import adopt_orphans, end_adopted
from slowstep_probe.processes.wire import Wire

MARKED = "SLOWSTEP_FRESH_START"
"""The environment variable by which the processes are known that a killed guard leaves."""


class FreshStart:
    """Stands in for a warm interpreter: it starts one guard, in a small interpreter of the kit's own.

    The guard works in `folder`, and what it guards prints to `printed` and is handed the sockets of `lines`. The
    environment of what it guards has to hold the `variable`.
    """

    preloaded = None

    def __init__(self, folder: str, printed: IO[bytes], lines: Sequence[Wire]):
        self.folder, self.printed, self.lines = folder, printed, lines
        self.guards: set[int] = set()
        self.variable = (MARKED, uuid.uuid4().hex)
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, order: Order, connection: Wire, report: Wire) -> int:
        """Start the guard, and return its number. `connection` and `report` are handed over, and closed here."""
        adopt_orphans()  # whatever a killed guard leaves behind comes here
        handed = [one.fileno() for one in (connection, report, *self.lines)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", entry("processes.guard_alone", f"{handed[0]}, {handed[1]}")],
                cwd=self.folder,
                env=dict(of_the_kit((), os.environ).env),
                stdin=subprocess.PIPE,
                stdout=self.printed,
                stderr=subprocess.STDOUT,
                pass_fds=handed,
                start_new_session=True,
            )
            with contextlib.suppress(OSError), self._process.stdin as given:  # one that has ended is found out later
                given.write(json.dumps(to_plain(order)).encode("ascii"))
        finally:
            for one in (connection, report, *self.lines):  # the ends over there are the only ones from now on
                one.close()
        self.guards.add(self._process.pid)
        return self._process.pid

    def end_orphans(self, guard: int) -> None:
        """End what is left of the guard, if it was killed: its processes came here."""
        self.guards.discard(guard)
        end_adopted("=".join(self.variable))

    def wait(self) -> None:
        """Let go of the guard, which has ended."""
        if self._process is not None:
            self._process.wait()
