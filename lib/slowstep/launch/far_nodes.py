"""The other nodes of a trial or of a survey: they are told to start their part, and their connections are handed over.

A trial on one host has no other nodes, and nothing is done for it here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from slowstep.factors import Arm
from slowstep.nodes.current import session_of
from slowstep.nodes.member import JoinedNode, NodeFailed, why_ended
from slowstep.nodes.session import Session
from slowstep.settings import Settings
from slowstep.settings.convert import to_plain
from slowstep_probe.plain import to_plain as message
from slowstep_probe.processes.wire import Wire
from slowstep_probe.ranks.rank import Group

LAST_WORDS_SECONDS = 1.0
"""The seconds in which a node may say why its part of a trial ended."""


class FarNodes:
    """The other nodes that take part, each with its ranks."""

    def __init__(self, session: Session | None, group: Group | None, numbers: list[int]):
        self._session, self.group = session, group
        self._numbers = numbers
        """The numbers of these nodes in the session."""
        self._members: list[JoinedNode] = []
        """The nodes that were told to start. One that leaves and joins again knows nothing of the launch."""
        self._launch = session.name_launch() if session else ""
        self._lines: list[Wire] = []
        self._told = False
        """True once the ends of the nodes' logs were returned."""

    def start(self, orders: Mapping[str, Any]) -> None:
        """Have the nodes start their part; NodeFailed if one can't."""
        if self._session is None or not self._numbers:
            return
        self._members = [self._session.member(number) for number in self._numbers]
        own = {}
        for number, at in zip(self._numbers, self.group.far, strict=True):
            theirs = replace(self.group, node=at, leads=False)
            own[number] = {**orders, "node": number, "group": message(theirs)}
        self._lines = self._session.lines(self._launch, own)

    def take(self) -> list[Wire]:
        """Return the connections to the nodes, in the order of the group. Who takes them closes them."""
        taken, self._lines = self._lines, []
        return taken

    def hand_over(self, connection: Wire) -> None:
        """Hand the connections over to the process that leads all ranks."""
        for line in self.take():
            with contextlib.suppress(OSError):  # it has ended already, which is found when it is asked
                connection.send({"node": True}, descriptors=[line.fileno()])
            line.close()

    def why(self) -> NodeFailed | None:
        """Return why a node's part has ended, if one says so."""
        return why_ended(self._launch, self._members, LAST_WORDS_SECONDS) if self._members else None

    def logs(self) -> str:
        """Return the ends of the logs of the nodes, whose parts have ended by now. They are returned once."""
        found: list[str] = []
        told_already, self._told = self._told, True
        for member in () if told_already else self._members:
            if told := member.ended(self._launch, LAST_WORDS_SECONDS):
                found += [f"[{member}] {line}" for line in told.get("log", "").splitlines()]
        return "\n".join(found)

    def tell_record(self, record: str) -> None:
        """Tell the nodes what a survey saw, once."""
        for number in self._numbers:
            member = self._session.member(number)
            if member.record != record:
                member.tell({"do": "know", "record": record})
                member.record = record

    def close(self) -> None:
        """Close connections that were not handed over: what was started there ends."""
        for line in self.take():
            line.close()


def of_trial(settings: Settings) -> FarNodes:
    """Return the nodes of a trial; SettingsError if they don't join."""
    command = settings.command
    if not settings.ranks:
        return FarNodes(None, None, [])
    if command is None or not command.nodes:
        return FarNodes(None, Group(on_nodes=[settings.ranks]), [])
    return spread(session_of(command, len(command.nodes), command.nodes[0]), settings.on_nodes)


def gather(settings: Settings) -> None:
    """Have all nodes of a command join, so that they stand among what measures; SettingsError if they don't."""
    if settings.command is not None and settings.command.nodes:
        session_of(settings.command, len(settings.command.nodes), settings.command.nodes[0]).gather()


def spread(session: Session, on_nodes: list[int]) -> FarNodes:
    """Return the nodes on which so many ranks run, 0 for one that takes no part."""
    taking = [node for node, ranks in enumerate(on_nodes) if ranks]
    group = Group(
        on_nodes=[on_nodes[node] for node in taking],
        hosts=[session.names.get(node, f"node {node}") for node in taking],
        node=taking.index(0) if 0 in taking else -1,
        numbers=taking,
    )
    return FarNodes(session, group, [node for node in taking if node])


def start_far_parts(far: FarNodes, arm: Arm, cache: Path) -> None:
    """Have the nodes start their part of a trial; NodeFailed if one can't."""
    record = Path(arm.settings.surveyed.record)
    far.tell_record(record.read_text(encoding="utf-8") if record.is_file() else "")
    far.start({"do": "train", "settings": to_plain(arm.settings), "label": arm.label, "cache": cache.name})
