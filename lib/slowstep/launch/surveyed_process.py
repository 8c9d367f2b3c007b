"""The process of a survey: it is started, it writes one line about what it saw, and it is ended with all its own."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import IO, Any

from slowstep.command.resolve import CommandError
from slowstep.launch.fresh_start import FreshStart
from slowstep.launch.guarded_process import Guarded
from slowstep.launch.of_command import offline
from slowstep.launch.probe_entry import entry
from slowstep.settings.command import Command
from slowstep_probe.plain import to_plain as message
from slowstep_probe.processes.guard import Order
from slowstep_probe.processes.log import last_words
from slowstep_probe.processes.scratch import folder_prefix, remove_folder
from slowstep_probe.processes.wire import Wire
from slowstep_probe.ranks.rank import Group
from slowstep_probe.secret import cleaned, know, secrets_of

KEPT = 2**16
"""The bytes that are kept of the end of what the program prints."""

IN_BACKGROUND = (
    "it went on in the background: its first process ended while another one ran, which is ended now; start it so that "
    "it stays in the foreground"
)

PRINTED_NOTHING = "it printed nothing"

BECOME = "slowstep_probe.processes.guard_alone:become"
"""What a survey's process runs: the program's own interpreter takes its place."""

LOOK = 1.0
"""The seconds that a process has to end by itself which has said nothing and whose end of the connection is closed."""

GRACE = 30.0
"""The seconds beyond those of the order after which a survey is ended from outside."""


@dataclass(frozen=True, kw_only=True)
class SurveyOrder:
    """How far a program is watched."""

    steps: int = 20
    seconds: float = 120.0
    """The most seconds from the beginning of the first step."""
    startup: float = 300.0
    """The most seconds until the first optimizer step."""
    epoch_seconds: float = 60.0
    """The most seconds of steps that are watched beyond `steps` until the end of an epoch."""
    no_ranks: list[int] = field(default_factory=list)
    """The numbers of processes that the program is known to spawn for something else than to train."""


def run_survey(
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
        return _survey_in_scratch(scratch, command, order, env, group, lines)
    finally:
        for line in lines:
            line.close()
        remove_folder(scratch)


def _survey_in_scratch(
    scratch: str,
    command: Command,
    order: SurveyOrder,
    env: Mapping[str, str],
    group: Group | None,
    lines: Sequence[Wire],
) -> dict[str, Any]:
    """Return what the process of a survey says, whose own files are in `scratch`."""
    meeting = os.path.join(scratch, "ranks")
    os.mkdir(meeting)
    given = {
        "arguments": command.arguments,
        "folder": command.folder,
        "command": command.words,
        "scratch": scratch if command.protected else "",
        "group": message(group) if group else None,
        "nodes": [line.fileno() for line in lines],
        "launcher": command.launcher,
        "early": list(command.early),
        "meeting": meeting,
        **asdict(order),
    }
    know(secrets_of(command.words, command.env))
    words = [command.python, *command.options, "-c", entry("survey.main")]
    with tempfile.TemporaryFile() as log:
        start = FreshStart(command.folder, log, lines)
        own = dict(env) | dict([start.variable]) | command.env | command.early | offline(scratch, command)
        guarded = Guarded(start, Order(target=BECOME, arguments=[words, given, own], folder=scratch))
        seen, ended = None, None
        try:
            with contextlib.suppress(EOFError, OSError):
                seen = guarded.hear(order.startup + order.seconds + GRACE)
            # a process whose end of the connection is closed may be about to end
            ended = guarded.end(0.0 if seen else LOOK)
        finally:
            guarded.end()
            start.wait()
        output = cleaned(_end_of(log))
    if group is not None and not group.leads and not seen:
        return {}
    if not seen and ended.code == 0 and ended.left:
        raise CommandError(f"{command}: {IN_BACKGROUND}")
    if not seen:
        by_itself = f"ended by {signal.Signals(-ended.code).name}" if ended.code and ended.code < 0 else "it ended"
        how = by_itself if ended.code is not None else "it said nothing within its time, and was ended"
        raise CommandError(f"{command}: {how} before anything was seen of it: {last_words(output) or PRINTED_NOTHING}")
    if seen.get("refused"):
        raise CommandError(f"{command}: {seen['refused']}")
    return seen | {"output": output}


def _end_of(log: IO[bytes]) -> str:
    log.seek(0, os.SEEK_END)
    log.seek(max(0, log.tell() - KEPT))
    return log.read().decode("utf-8", errors="replace")
