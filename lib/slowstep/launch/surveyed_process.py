"""The process of a survey: it is started, it writes one line about what it saw, and it is ended with all its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any

from slowstep.command.resolve import CommandError
from slowstep.launch.of_command import offline
from slowstep.launch.probe_entry import entry
from slowstep.processes.signals import held
from slowstep.settings.command import Command
from slowstep_probe.plain import to_plain as message
from slowstep_probe.processes.log import last_words
from slowstep_probe.processes.scratch import folder_prefix, remove_folder
from slowstep_probe.processes.tree import adopt_orphans, end_adopted, end_process_tree
from slowstep_probe.processes.wire import Wire
from slowstep_probe.ranks.rank import Group
from slowstep_probe.secret import cleaned, know, secrets_of

KEPT = 2**16
"""The bytes that are kept of the end of what the program prints."""

IN_BACKGROUND = (
    "it went on in the background: its first process ended while another one ran, which is ended now; start it so that "
    "it stays in the foreground"
)

MARKED = "SLOWSTEP_SURVEY"
"""The environment variable by which the processes of a survey are known."""

LOOK = 1.0
"""The seconds between two looks at whether a program's process is still there."""

GRACE = 30.0
"""The seconds beyond those of the order after which a survey is ended from outside."""


@dataclass(frozen=True, kw_only=True)
class SurveyOrder:
    """How far a program is watched."""

    steps: int = 20
    seconds: float = 120.0
    """The most seconds from the first step's begin."""
    startup: float = 300.0
    """The most seconds until the first optimizer step."""
    epoch_seconds: float = 60.0
    """The most seconds of steps that are watched beyond `steps` until the end of an epoch."""


def told(
    command: Command,
    order: SurveyOrder,
    env: Mapping[str, str],
    group: Group | None = None,
    lines: Sequence[Wire] = (),
) -> dict[str, Any]:
    """Return what the process of a survey says, with the end of what the program printed.

    `group` are the ranks that it forks or leads, and `lines` the connections to other nodes, which are closed here.
    """
    scratch = tempfile.mkdtemp(prefix=folder_prefix("survey"))
    try:
        return _told_from(scratch, command, order, env, group, lines)
    finally:
        for line in lines:
            line.close()
        remove_folder(scratch)


def _told_from(
    scratch: str,
    command: Command,
    order: SurveyOrder,
    env: Mapping[str, str],
    group: Group | None,
    lines: Sequence[Wire],
) -> dict[str, Any]:
    """Return what the process of a survey says, whose own files are in `scratch`."""
    read, write = os.pipe()
    meeting = os.path.join(scratch, "ranks")
    os.mkdir(meeting)
    given = {
        "arguments": command.arguments,
        "folder": command.folder,
        "command": command.words,
        "result": write,
        "scratch": scratch if command.protected else "",
        "group": message(group) if group else None,
        "nodes": [line.fileno() for line in lines],
        "launcher": command.launcher,
        "early": list(command.early),
        "meeting": meeting,
        **asdict(order),
    }
    know(secrets_of(command.words, command.env))
    words = [command.python, *command.options, "-c", entry("surveyed"), json.dumps(given)]
    adopt_orphans()  # whatever the program leaves behind comes here, and is ended
    mark = f"{MARKED}={uuid.uuid4()}"
    own = (
        dict(env)
        | dict([mark.split("=")])
        | command.env
        | command.early
        | (offline(scratch) if command.protected else {})
    )
    with tempfile.TemporaryFile() as log, open(read, encoding="utf-8") as told, open(write, "wb") as theirs:
        process = None
        try:
            with held():  # a signal that came between would leave the process without anybody who knows it
                process = subprocess.Popen(
                    words,
                    cwd=command.folder,
                    env=own,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=(write, *(line.fileno() for line in lines)),
                    start_new_session=True,
                )
            theirs.close()
            for each in lines:  # the process's end of them is the only one from now on
                each.close()
            line = _line(told, order.startup + order.seconds + GRACE, process)
            if not line:  # a process whose end of the pipe is closed may be about to end
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK)
            code = process.poll()
            left = not line and code == 0 and select.select([told], [], [], 0)[0] == []
        finally:
            if process:
                end_process_tree(process.pid)
                process.wait()
            end_adopted(mark)
        output = cleaned(_end_of(log))
    if group is not None and not group.leads and not line:
        return {}
    if left:
        raise CommandError(f"{command}: {IN_BACKGROUND}")
    if not line:
        by_itself = f"ended by {signal.Signals(-code).name}" if code and code < 0 else "it ended"
        ended = by_itself if code is not None else "it said nothing within its time, and was ended"
        raise CommandError(
            f"{command}: {ended} before anything was seen of it: {last_words(output) or 'it printed nothing'}"
        )
    seen = json.loads(line)
    if seen.get("refused"):
        raise CommandError(f"{command}: {seen['refused']}")
    return seen | {"output": output}


def _line(told: IO[str], seconds: float, process: subprocess.Popen[bytes]) -> str:
    """Return the line that the program's process writes; an empty text if it ends, or takes too long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        over = process.poll() is not None
        if select.select([told], [], [], LOOK)[0]:
            return told.readline()
        if over:  # and another process still holds the other end
            break
    return ""


def _end_of(log: IO[bytes]) -> str:
    log.seek(0, os.SEEK_END)
    log.seek(max(0, log.tell() - KEPT))
    return log.read().decode("utf-8", errors="replace")
