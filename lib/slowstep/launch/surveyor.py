"""A survey from the kit's side: the program runs in its own interpreter until it has taken some steps."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import IO, Any

from slowstep.command.resolve import CommandError
from slowstep.launch.far_nodes import spread
from slowstep.launch.of_command import ALONE
from slowstep.launch.probe_entry import entry
from slowstep.nodes.current import session_of
from slowstep.nodes.member import NodeFailed
from slowstep.processes.signals import held
from slowstep.settings.command import Command
from slowstep.settings.convert import from_plain, to_plain
from slowstep_probe.plain import to_plain as message
from slowstep_probe.processes.log import last_words
from slowstep_probe.processes.scratch import folder_prefix, remove_folder
from slowstep_probe.processes.tree import adopt_orphans, end_adopted, end_process_tree
from slowstep_probe.processes.wire import Wire
from slowstep_probe.ranks.failures import LOST
from slowstep_probe.ranks.rank import BY_ITSELF, SPAWN, Group, Rank

KEPT = 2**16
"""The bytes that are kept of the end of what the program prints."""

SLOW_PATH = re.compile(
    r"fast path is not available|fall(s|ing)? ?back (to|on)|fallback|will be slow|is slower|slow(er)? (path|version|"
    r"implementation)|recompil|recompile_limit|cache_size_limit|num_workers.{0,80}(bottleneck|suggested max)|"
    r"cudaHostAlloc|consider installing|to (speed up|improve) performance",
    re.IGNORECASE,
)
"""Words by which libraries say that they could be faster: a missing kernel, a graph that is compiled again."""

LONGEST_LINE, MOST_WARNINGS = 300, 5

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
    """The most seconds from the start."""
    startup: float = 300.0
    """The most seconds until the first optimizer step."""


@dataclass(frozen=True, kw_only=True)
class SurveyRecord:
    """What a survey saw."""

    command: Command
    constructed: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    threads: int = 0
    ended: str = ""
    """How the program ended by itself; empty if it was ended."""
    standing: str = ""
    """The stack of a program that took no step in time."""
    kept: bool = True
    """True if what was written stayed."""
    steps: int = 0
    first_step_boundary: float | None = None
    training: dict[str, Any] | None = None
    output: str = ""
    """The end of what the program printed."""

    @property
    def warned(self) -> list[str]:
        """Lines that the program printed about a slow path that it takes, each once."""
        lines = [line.strip()[:LONGEST_LINE] for line in self.output.splitlines()]
        return list(dict.fromkeys(line for line in lines if SLOW_PATH.search(line)))[:MOST_WARNINGS]


def survey(command: Command, order: SurveyOrder, env: Mapping[str, str]) -> SurveyRecord:
    """Run a command until enough was seen of it, and return that. CommandError if nothing was.

    What the program writes is thrown away, unless the command is not `protected`.
    """
    seen = _told(command, order, env)
    if "launcher" in seen:  # it would start several processes now, so it is surveyed as all of them
        alone, command = command, _of_several(command, seen)
        if seen["nodes"] > 1:
            return _over_nodes(command, order, env, seen)
        seen = _told(command, order, env, Group(on_nodes=[command.processes]))
        if command.launcher == SPAWN and command.processes > 1 and not _meets(seen):  # they prepare, and train nothing
            command = replace(alone, launcher=BY_ITSELF)
            seen = _told(command, order, env)
    return from_plain(SurveyRecord, seen | {"command": to_plain(command)})


def _of_several(command: Command, seen: Mapping[str, Any]) -> Command:
    """Return a command with the processes that it was seen to start on this node."""
    set_by_launcher = {n: v for n, v in mattering(seen["env"]).items() if n not in OF_RANKS}
    several = {name: seen[name] for name in ("processes", "launcher", "launched")}
    return replace(command, **several, env=set_by_launcher | command.env)


def _over_nodes(command: Command, order: SurveyOrder, env: Mapping[str, str], would: Mapping[str, Any]) -> SurveyRecord:
    """Return the survey of a command that trains on several nodes, once they have joined."""
    if would["node"]:
        raise CommandError(
            f"{command}: this is node {would['node']} by its command; run slowstep diagnose on node 0, and here "
            "`slowstep join HOST`, with the host of node 0 and with this command after --"
        )
    session = session_of(command, would["nodes"], command.processes)
    command = replace(command, nodes=session.on_nodes, processes=sum(session.on_nodes))
    far = spread(session, command.nodes)
    try:
        far.start({"do": "survey", "order": asdict(order), "protected": command.protected})
        seen = _told(command, order, env, far.group, far.take())
    except NodeFailed as failed:
        raise CommandError(f"{command}: {failed}") from None
    if LOST in seen["ended"] and (why := far.why()):
        raise CommandError(f"{command}: {why}")
    return from_plain(SurveyRecord, seen | {"command": to_plain(command)})


def would_start(command: Command, order: SurveyOrder, env: Mapping[str, str]) -> tuple[Command, int, int | None]:
    """Return a command with the processes that it would start here, the number of its nodes, and that of this one.

    CommandError if it would start none, or on one node alone.
    """
    seen = _told(command, order, env)
    if seen.get("nodes", 1) < 2:
        ended = f" ({seen['ended']})" if seen.get("ended") else ""
        raise CommandError(
            f"{command}: it starts no processes on several nodes{ended}; give the command that "
            "`slowstep diagnose` was given on node 0, as in `torchrun --nnodes 2 --nproc-per-node 2 train.py`"
        )
    return _of_several(command, seen), seen["nodes"], seen["node"]


def survey_part(command: Command, order: SurveyOrder, env: Mapping[str, str], group: Group, line: Wire) -> None:
    """Run this node's part of a survey that another node leads, until that has seen enough."""
    _told(command, order, env, group, [line])


MATTERS = re.compile(
    r"(OMP|MKL|OPENBLAS|KMP|GOMP|CUDA|NVIDIA|PYTORCH|TORCH|TORCHINDUCTOR|TRITON|HF|TRANSFORMERS|TOKENIZERS|ACCELERATE|"
    r"BITSANDBYTES|MALLOC|GLIBC|LD|PYTHON|PL|WANDB|MLFLOW|COMET)_?.*"
)
SECRET = re.compile(r".*(TOKEN|KEY|SECRET|PASSW|CREDENTIAL).*")


def mattering(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that how a program trains may depend on. They belong to the command.

    No secret is among them: trials find those in the environment that they are started from.
    """
    return {name: value for name, value in env.items() if MATTERS.fullmatch(name) and not SECRET.fullmatch(name)}


def _meets(seen: Mapping[str, Any]) -> bool:
    """Return whether the ranks of a survey have formed a group, or have not come so far."""
    facts = (seen.get("training") or {}).get("facts")
    return facts is None or int(facts.get("world_size") or 1) > 1


OF_RANKS = ("PWD", *Rank(number=0, size=1).environment)
"""Environment variables that differ between ranks, or that each process has of its own."""


def _told(
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
        "meeting": meeting,
        **asdict(order),
    }
    words = [command.python, *command.options, "-c", entry("surveyed"), json.dumps(given)]
    adopt_orphans()  # whatever the program leaves behind comes here, and is ended
    mark = f"{MARKED}={uuid.uuid4()}"
    with tempfile.TemporaryFile() as log, open(read, encoding="utf-8") as told, open(write, "wb") as theirs:
        process = None
        try:
            with held():  # a signal that came between would leave the process without anybody who knows it
                process = subprocess.Popen(
                    words,
                    cwd=command.folder,
                    env=dict(env) | dict([mark.split("=")]) | command.env | (ALONE if command.protected else {}),
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
            left = not line and code is not None and select.select([told], [], [], 0)[0] == []
        finally:
            if process:
                end_process_tree(process.pid)
                process.wait()
            end_adopted(mark)
        output = _end_of(log)
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
    if "refused" in seen:
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
