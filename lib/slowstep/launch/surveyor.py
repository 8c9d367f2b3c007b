"""A survey from the kit's side: the program runs in its own interpreter until it has taken some steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from slowstep.command.resolve import CommandError
from slowstep.launch.far_nodes import spread
from slowstep.launch.of_command import refuse_within
from slowstep.launch.surveyed_process import SurveyOrder, run_survey
from slowstep.nodes.current import session_of
from slowstep.nodes.member import NodeFailed
from slowstep.settings.command import Command
from slowstep.settings.convert import from_plain, to_plain
from slowstep_probe.plain import shortened
from slowstep_probe.processes.wire import Wire
from slowstep_probe.ranks.failures import LOST
from slowstep_probe.ranks.rank import BY_ITSELF, PROCESS, SPAWN, Group, way_of
from slowstep_probe.survey.early_environment import OF_RANKS, mattering

SLOW_PATH = re.compile(
    r"fast path is not available|fall(s|ing)? ?back (to|on)|fallback|will be slow|is slower|slow(er)? (path|version|"
    r"implementation)|recompil|recompile_limit|cache_size_limit|num_workers.{0,80}(bottleneck|suggested max)|"
    r"cudaHostAlloc|consider installing|to (speed up|improve) performance|for better performance|"
    r"(affect|impair|degrade|hurt|reduce)s? performance|PerformanceWarning|(extremely|very) slow\b|"
    r"is faster than using|inefficient|increase the runtime|compacted at every call|create_graph=True will create|"
    r"properly utilize them",
    re.IGNORECASE,
)
"""Words by which libraries say that they could be faster: a missing kernel, a graph that is compiled again."""

LONGEST_LINE, MOST_WARNINGS = 300, 5


@dataclass(frozen=True, kw_only=True)
class SurveyRecord:
    """What a survey saw."""

    command: Command
    constructed: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)
    """The servers that it asked, as `host:port` or by the path of a socket, as far as Python asks them."""
    configurations: list[str] = field(default_factory=list)
    """Configuration files of the user's own that it read."""
    threads: int = 0
    ended: str = ""
    """How the program ended by itself; empty if it was ended."""
    failed: bool = False
    """True if it failed by itself within its first epoch, as its trials would."""
    standing: str = ""
    """The place where a program stood that took no step in time: the innermost line of its own code, if it has one."""
    kept: bool = True
    """True if what was written stayed."""
    steps: int = 0
    first_step_boundary: float | None = None
    weights_seconds: float = 0.0
    """The seconds in which models of transformers were read, quantised, or drawn at random."""
    training: dict[str, Any] | None = None
    output: str = ""
    """The end of what the program printed."""

    @property
    def warned(self) -> list[str]:
        """Lines that the program printed about a slow path that it takes, each once."""
        lines = [shortened(line.strip(), LONGEST_LINE) for line in self.output.splitlines()]
        return list(dict.fromkeys(line for line in lines if SLOW_PATH.search(line)))[:MOST_WARNINGS]


def survey(command: Command, order: SurveyOrder, env: Mapping[str, str]) -> SurveyRecord:
    """Run a command until enough was seen of it, and return that. CommandError if nothing was.

    What the program writes is thrown away, unless the command is not `protected`.
    """
    refuse_within(env)
    command, seen = _told(command, order, env)
    if "launcher" in seen:  # it would start several processes now, so it is surveyed as all of them
        alone, command = command, _of_several(command, seen)
        if seen["nodes"] > 1:
            return _over_nodes(command, order, env, seen)
        command, seen = _told(command, order, env, Group(on_nodes=[command.processes]))
        while "launcher" in seen:  # those prepare something, and would start those that train now
            order = replace(order, no_ranks=[*order.no_ranks, command.processes])
            command = _of_several(alone, seen)
            command, seen = _told(command, order, env, Group(on_nodes=[command.processes]))
        way = way_of(command.launcher)
        if way == SPAWN and command.processes > 1 and not _meets(seen):  # they prepare, and train nothing
            command, seen = _told(replace(alone, launcher=BY_ITSELF), order, env)
        if way == PROCESS and seen.get("training") is None:  # they evaluate, or serve what trains
            by_itself, again = _told(replace(alone, launcher=BY_ITSELF), order, env)
            command, seen = (by_itself, again) if again.get("training") else (command, seen)
    return from_plain(SurveyRecord, seen | {"command": to_plain(command)})


def _told(
    command: Command, order: SurveyOrder, env: Mapping[str, str], group: Group | None = None
) -> tuple[Command, dict[str, Any]]:
    """Return a command with the variables that its program sets before its imports, and what was seen of it with them.

    A process alone ends where it has set some, and is started with them.
    """
    seen = run_survey(command, order, env, group)
    while early := seen.pop("early", {}):
        command = replace(command, early=command.early | early)
        if group is not None:
            break
        seen = run_survey(command, order, env)
    return command, seen


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
    session.gather()
    command = replace(command, nodes=session.on_nodes, processes=sum(session.on_nodes))
    far = spread(session, command.nodes)
    try:
        far.start({"do": "survey", "order": asdict(order), "protected": command.protected})
        seen = run_survey(command, order, env, far.group, far.take())
        seen.pop("early", None)
    except NodeFailed as failed:
        raise CommandError(f"{command}: {failed}") from None
    if LOST in seen["ended"] and (why := far.why()):
        raise CommandError(f"{command}: {why}")
    return from_plain(SurveyRecord, seen | {"command": to_plain(command)})


def would_start(command: Command, order: SurveyOrder, env: Mapping[str, str]) -> tuple[Command, int, int | None]:
    """Return a command with the processes that it would start here, the number of its nodes, and that of this one.

    CommandError if it would start none, or on one node alone.
    """
    command, seen = _told(command, order, env)
    if seen.get("nodes", 1) < 2:
        ended = f" ({seen['ended']})" if seen.get("ended") else ""
        raise CommandError(
            f"{command}: it starts no processes on several nodes{ended}; give the command that "
            "`slowstep diagnose` was given on node 0, as in `torchrun --nnodes 2 --nproc-per-node 2 train.py`"
        )
    return _of_several(command, seen), seen["nodes"], seen["node"]


def survey_part(command: Command, order: SurveyOrder, env: Mapping[str, str], group: Group, line: Wire) -> None:
    """Run this node's part of a survey that another node leads, until that has seen enough."""
    run_survey(command, order, env, group, [line])


def _meets(seen: Mapping[str, Any]) -> bool:
    """Return whether the ranks of a survey have formed a group, or have not come so far."""
    facts = (seen.get("training") or {}).get("facts")
    return facts is None or int(facts.get("world_size") or 1) > 1
